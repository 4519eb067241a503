# shellcheck shell=bash disable=SC2154  # root, out and again are variables of tests/run.sh
# What tests/run.sh prints: sections with their seconds, steps, the tests of a report, and the sum.

passed=0 failed=0 failures=() failed_tests=()
current=() times_table=()

# cpu_seconds: sets `cpu` to the CPU seconds of all commands that have ended.
cpu_seconds() {
    local stat
    read -r -a stat <"/proc/$$/stat"
    cpu=$(((stat[15] + stat[16]) / 100))
}

# section NAME: ends the section before, whose seconds it prints, and begins another one.
section() {
    end_section
    cpu_seconds
    current=("$SECONDS" "$cpu" "$*")
    printf '\n==== %s (%ss)\n' "$*" "$SECONDS"
}
end_section() {
    local line
    ((${#current[@]})) || return 0
    cpu_seconds
    printf -v line '| %s | %s (%s) |' "${current[2]}" $((SECONDS - current[0])) $((cpu - current[1]))
    times_table+=("$line")
    printf 'took %s s, and %s s of CPU time\n' $((SECONDS - current[0])) $((cpu - current[1]))
    current=()
}

# step NAME COMMAND...: a check that passes or fails as a whole.
step() {
    local name=$1 start=$SECONDS
    shift
    if "$@"; then
        printf 'ok: %s (%s s)\n' "$name" $((SECONDS - start))
        ((passed += 1))
    else
        printf 'FAILED: %s\n' "$name"
        ((failed += 1))
        failures+=("$name")
        return 1
    fi
}

# cases REPORT: of a report that ctest or pytest wrote, a line for each test: seconds, whether the test
# failed, and its name as ctest -R or pytest takes it.
cases() {
    tr '\n\t' '  ' <"$1" | awk -v RS='<testcase ' '
        function attribute(name) {
            if (!match(" " $0, " " name "=\"[^\"]*\"")) return ""
            return substr(" " $0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        }
        NR > 1 {
            file = attribute("classname"); name = attribute("name")
            if (file ~ /\./) { gsub(/\./, "/", file); name = "tests/" file ".py::" name }
            bad = /<(failure|error)|status="fail"/ ? "failed" : "ended"
            printf "%.1f %s %s\n", attribute("time"), bad, name }'
}

# tally NAME JUNIT STATUS COMMAND: adds the counts of a report that ctest or pytest wrote. COMMAND and
# the name of a test repeat that test.
tally() {
    local name=$1 report=$2 status=$3 again=$4 suite test tests=0 bad=0 left_out=0
    attribute() { grep -o " $1=\"[0-9]*\"" <<<"$suite" | head -n 1 | tr -dc 0-9; }
    if [[ -s $report ]]; then
        suite=$(tr '\n\t' '  ' <"$report" | grep -o '<testsuite [^>]*>' | head -n 1)
        tests=$(attribute tests) bad=$((10#0$(attribute failures) + 10#0$(attribute errors)))
        left_out=$((10#0$(attribute skipped) + 10#0$(attribute disabled)))
        printf 'the slowest:\n'
        cases "$report" | sort -rn | head -n 20 | awk '{ printf "%8.1f s  ", $1; $1 = $2 = ""; print substr($0, 3) }'
    fi
    # A run that ended badly without naming a failed test (a crash, a timeout, no tests) is one.
    if ((status != 0 && bad == 0)); then bad=1; fi
    if ((tests == 0 && bad == 0)); then bad=1; fi
    ((tests >= bad + left_out)) || tests=$((bad + left_out))
    ((passed += tests - bad - left_out, failed += bad))
    printf '%s: %s passed, %s failed, %s skipped\n' "$name" $((tests - bad - left_out)) "$bad" "$left_out"
    ((bad != 0)) || return 0
    failures+=("$name")
    while read -r test; do
        failed_tests+=("$again '$test'")
    done < <([[ ! -s $report ]] || cases "$report" | sed -n 's/^[^ ]* failed //p')
}

# sum: what took how long, as CONTRIBUTING.md has it, what failed and how it is repeated, and the closing line.
sum() {
    section "the sum"
    cpu_seconds
    printf '| part | seconds (CPU seconds) |\n|---|---:|\n'
    printf '%s\n' "${times_table[@]}" "| all of it | $SECONDS ($cpu) |"
    [[ -z ${seed-} ]] || printf 'seed %s\n' "$seed"
    ((${#failures[@]} == 0)) || printf 'failed: %s\n' "${failures[@]}"
    if ((${#failed_tests[@]})); then
        printf 'to repeat them:\n'
        printf '    %s\n' "${failed_tests[@]}"
    fi
    printf '%s passed, %s failed\n' "$passed" "$failed"
    ((failed == 0))
}
