# shellcheck shell=bash
# For the scripts of this folder that write files into a folder which the caller names: their arguments. Such a script
# has a function usage, and gives the variables of its options their defaults before it calls read_arguments.

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# read_arguments NAMES FLAGS ARGUMENT...: reads options and the folder. NAMES are the options with a value, which goes to
# the variable of that name; FLAGS are the options without one, whose variables become "yes". The variable `folder`
# becomes the argument that is no option.
read_arguments() {
    local names=$1 flags=$2
    shift 2
    folder=
    while (($#)); do
        if [[ $1 == --?* && " $names " == *" ${1#--} "* ]]; then
            printf -v "${1#--}" %s "${2-}"
            shift
        elif [[ $1 == --?* && " $flags " == *" ${1#--} "* ]]; then
            printf -v "${1#--}" yes
        elif [[ $1 == -h || $1 == --help ]]; then
            usage
            exit 0
        elif [[ $1 == -* ]]; then
            die "unknown option '$1'"
        else
            folder=$1
        fi
        shift
    done
    if [[ -z $folder ]]; then
        usage >&2
        exit 2
    fi
}

# make_folder: makes the folder if it is absent, and sets `folder` to its path from the root. A folder that has files ends
# the script.
make_folder() {
    mkdir -p "$folder"
    folder=$(realpath "$folder")
    [[ -z $(ls -A "$folder") ]] || die "$folder is not empty"
}
