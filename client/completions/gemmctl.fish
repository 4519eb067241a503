# fish completion for gemmctl: gemm, attention, conv, reduce, softmax, tensor put, tensor get, tensor ls,
# tensor rm, job ls, job status, job wait, job result, job cancel, bench, bench attention, bench conv,
# bench reduce, bench softmax, bench ladder, info, metrics, top, ready, completion, help

# Prints the words of the line before the cursor that are neither options nor values of options.
function __gemmctl_words
    set -l skip no
    for word in (commandline -opc)[2..]
        if test $skip = yes
            set skip no
            continue
        end
        switch $word
            case '--*=*' --once --json --check --async --evictable --contiguous --transa --transb --causal --keepdims --log --with-lse --timing --shm --no-shm --check-digest --quiet -q --no-color --help -h --version
            case '-*'
                set skip yes
            case '*'
                echo $word
        end
    end
end

# Whether the command of the line is one of those named, such as 'tensor put'.
function __gemmctl_is
    set -l words (__gemmctl_words)
    test (count $words) -gt 0; or return 1
    set -l command $words[1]
    if contains -- $command tensor job
        or begin
            test $command = bench
            and contains -- "$words[2]" attention conv reduce softmax ladder
        end
        set command "$command $words[2]"
    end
    contains -- "$command" $argv
end

# Whether the line has no command yet, or only the first word $argv[1] of a command.
function __gemmctl_has
    set -l words (__gemmctl_words)
    test "$words" = "$argv"
end

# Prints names: contexts, or tensors, jobs, kernels or an operation's kernels (kernels:conv2d) that the daemon knows.
# The daemon is the one that the options of the line name.
function __gemmctl_names
    set -l words (commandline -opc)
    set -l options
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -u --url --context --token-file --ca-file --cert-file --key-file
                set -a options $words[$i] $words[(math $i + 1)]
            case '--url=*' '--context=*' '--token-file=*' '--ca-file=*' '--cert-file=*' '--key-file=*'
                set -a options $words[$i]
        end
    end
    $words[1] completion $argv[1] $options --timeout 1s --retries 0 2>/dev/null
end

complete -c gemmctl -f
complete -c gemmctl -n __gemmctl_has -a gemm -d 'compute a product'
complete -c gemmctl -n __gemmctl_has -a attention -d 'compute an attention'
complete -c gemmctl -n __gemmctl_has -a conv -d 'compute a convolution'
complete -c gemmctl -n __gemmctl_has -a reduce -d 'reduce an array over one axis'
complete -c gemmctl -n __gemmctl_has -a softmax -d 'compute a softmax over the last axis'
complete -c gemmctl -n __gemmctl_has -a tensor -d 'put, get, list or remove tensors on the daemon'
complete -c gemmctl -n __gemmctl_has -a job -d 'list jobs, ask for, wait for, fetch or cancel one'
complete -c gemmctl -n __gemmctl_has -a bench -d 'measure products per second'
complete -c gemmctl -n __gemmctl_has -a info -d 'show version, devices, kernels and limits'
complete -c gemmctl -n __gemmctl_has -a metrics -d 'print the metrics of the daemon'
complete -c gemmctl -n __gemmctl_has -a top -d 'watch rate, latency, queue, devices and tensors'
complete -c gemmctl -n __gemmctl_has -a ready -d 'ask whether the daemon accepts work'
complete -c gemmctl -n __gemmctl_has -a completion -d 'print the completion script of a shell'
complete -c gemmctl -n __gemmctl_has -a help -d 'print help'
complete -c gemmctl -n '__gemmctl_has tensor' -a 'put get ls rm'
complete -c gemmctl -n '__gemmctl_has job' -a 'ls status wait result cancel'
complete -c gemmctl -n '__gemmctl_has bench' -a 'attention conv reduce softmax ladder'
complete -c gemmctl -n '__gemmctl_has completion' -a 'bash zsh fish'
complete -c gemmctl -n '__gemmctl_has help' -a 'gemm attention conv reduce softmax tensor job bench info metrics top ready completion help'

complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "tensor put"' -F
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax' -a '(string replace -r ^ tensor: (__gemmctl_names tensors))'
complete -c gemmctl -n '__gemmctl_is "tensor get" "tensor ls" "tensor rm"' -a '(__gemmctl_names tensors)'
complete -c gemmctl -n '__gemmctl_is "job status" "job wait" "job result" "job cancel"' -a '(__gemmctl_names jobs)'

complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "tensor get" "job result"' -l output -s o -r -F -d 'file to write the result to'
complete -c gemmctl -n '__gemmctl_is gemm conv' -l bias -r -F -d 'vector added to every row, or to every filter'
complete -c gemmctl -n '__gemmctl_is gemm' -l scales -x -a 'none rowcol block' -d 'scales of f8_e4m3 and i8 operands'
complete -c gemmctl -n '__gemmctl_is gemm' -l a-scale -r -F -d 'scales of A'
complete -c gemmctl -n '__gemmctl_is gemm' -l b-scale -r -F -d 'scales of B'
complete -c gemmctl -n '__gemmctl_is gemm' -l c0 -r -F -d 'matrix that beta multiplies'
complete -c gemmctl -n '__gemmctl_is gemm conv reduce softmax' -l random -x -d 'use random operands'
complete -c gemmctl -n '__gemmctl_is gemm conv reduce softmax' -l seed -x -d 'seed of the random operands'
complete -c gemmctl -n '__gemmctl_is gemm conv reduce softmax' -l check -d 'compare the result with one computed here'
complete -c gemmctl -n '__gemmctl_is gemm conv reduce softmax' -l store -x -d 'keep the result on the daemon as a tensor'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax' -l async -d 'hand the request in as a job'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l m -s m -x -d 'rows of op(A) and C'
complete -c gemmctl -n '__gemmctl_is gemm bench "bench ladder"' -l n -s n -x -d 'columns of op(B) and C'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l k -s k -x -d 'columns of op(A), rows of op(B)'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "tensor put" bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l dtype -x -a 'f64 f32 f16 bf16 f8_e4m3 i8 i32' -d 'element type'
complete -c gemmctl -n '__gemmctl_is reduce softmax "tensor put" "bench reduce" "bench softmax"' -l shape -x -d 'dimensions of an array'
complete -c gemmctl -n '__gemmctl_is "tensor put"' -l evictable -d 'let the daemon drop the tensor'
complete -c gemmctl -n '__gemmctl_is "tensor put"' -l contiguous -d 'keep the rows one after another on the device'
complete -c gemmctl -n '__gemmctl_is gemm bench conv reduce softmax "bench conv" "bench reduce" "bench softmax"' -l out -x -a 'f64 f32 f16 bf16 i8 i32' -d 'type of the result'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l precision -x -a 'full tf32 f8' -d 'precision of f32 and f8_e4m3'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l precision -x -a 'full tf32' -d 'precision of f32'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l transa -d 'A is stored transposed'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l transb -d 'B is stored transposed'
complete -c gemmctl -n '__gemmctl_is gemm bench conv "bench conv"' -l alpha -x -d 'factor of the product'
complete -c gemmctl -n '__gemmctl_is gemm' -l beta -x -d 'factor of C0'
complete -c gemmctl -n '__gemmctl_is gemm attention conv bench "bench attention" "bench conv"' -l batch -x -d 'number of problems'
complete -c gemmctl -n '__gemmctl_is gemm bench conv "bench conv"' -l act -x -a 'none relu gelu gelu_tanh silu' -d 'activation function'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l heads -x -d 'heads of Q'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l kv-heads -x -d 'heads of K and V'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l sq -x -d 'length of Q'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l skv -x -d 'length of K and V'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l d -x -d 'head size of Q and K'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l dv -x -d 'head size of V and O'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l layout -x -a 'bhsd bshd' -d 'order of dimensions'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l layout -x -a 'nchw nhwc' -d 'order of the dimensions of X and Y'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l w-layout -x -a 'kcrs krsc' -d 'order of the dimensions of W'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l channels -x -d 'channels of X'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l height -x -d 'height of X'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l width -x -d 'width of X'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l filters -x -d 'filters of W'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l filter-h -x -d 'height of the filters'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l filter-w -x -d 'width of the filters'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l groups -x -d 'groups of channels'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l stride -x -d 'step of the filter'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l dilation -x -d 'distance of the elements of a filter'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l padding -x -a same -d 'zeros around X'
complete -c gemmctl -n '__gemmctl_is reduce "bench reduce"' -l op -x -a 'sum mean max min norm2 logsumexp argmax' -d 'what is computed'
complete -c gemmctl -n '__gemmctl_is reduce "bench reduce"' -l axis -x -d 'dimension that is reduced'
complete -c gemmctl -n '__gemmctl_is reduce "bench reduce"' -l keepdims -d 'keep the reduced dimension, as 1'
complete -c gemmctl -n '__gemmctl_is softmax "bench softmax"' -l log -d 'compute the logarithm of the softmax'
complete -c gemmctl -n '__gemmctl_is softmax' -l lens -r -F -d 'file with the number of valid elements of the rows'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l causal -d 'mask keys to the right of a query'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l window -x -d 'mask keys further to the left of a query'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l scale -x -d 'factor of the scores'
complete -c gemmctl -n '__gemmctl_is softmax "bench softmax"' -l scale -x -d 'factor of X'
complete -c gemmctl -n '__gemmctl_is "tensor put" "tensor get"' -l scale -r -F -d 'file with the scales of the tensor'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l softcap -x -d 'bound of the scores'
complete -c gemmctl -n '__gemmctl_is attention' -l lens-q -r -F -d 'file with the number of valid queries'
complete -c gemmctl -n '__gemmctl_is attention' -l lens-kv -r -F -d 'file with the number of valid keys'
complete -c gemmctl -n '__gemmctl_is attention "job result"' -l lse -r -F -d 'file to write lse to'
complete -c gemmctl -n '__gemmctl_is attention' -l with-lse -d 'with --async, let the job compute lse'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l kernel -x -a '(__gemmctl_names kernels:gemm)' -d 'kernel to use'
complete -c gemmctl -n '__gemmctl_is attention "bench attention"' -l kernel -x -a '(__gemmctl_names kernels:attention)' -d 'kernel to use'
complete -c gemmctl -n '__gemmctl_is conv "bench conv"' -l kernel -x -a '(__gemmctl_names kernels:conv2d)' -d 'kernel to use'
complete -c gemmctl -n '__gemmctl_is reduce "bench reduce"' -l kernel -x -a '(__gemmctl_names kernels:reduce)' -d 'kernel to use'
complete -c gemmctl -n '__gemmctl_is softmax "bench softmax"' -l kernel -x -a '(__gemmctl_names kernels:softmax)' -d 'kernel to use'
complete -c gemmctl -n '__gemmctl_is gemm bench' -l verify -x -a 'none freivalds' -d 'have the daemon check the result'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l priority -x -a '0 1 2 3 4 5 6 7 8 9' -d 'priority, 0 is the lowest'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "tensor put" "tensor get" "job result"' -l format -x -a 'npy safetensors raw' -d 'format of all files'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax' -l in-format -x -a 'npy safetensors raw' -d 'format of the files that are read'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax' -l out-format -x -a 'npy safetensors raw' -d 'format of the files that are written'
complete -c gemmctl -n '__gemmctl_is bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l connections -s c -x -d 'number of connections'
complete -c gemmctl -n '__gemmctl_is bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l in-flight -x -d 'number of requests in flight'
complete -c gemmctl -n '__gemmctl_is bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l duration -s d -x -d 'time to measure'
complete -c gemmctl -n '__gemmctl_is bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l requests -x -d 'number of requests to measure'
complete -c gemmctl -n '__gemmctl_is top' -l once -d 'print one report'
complete -c gemmctl -n '__gemmctl_is top' -l interval -x -d 'time between two looks'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "job result"' -l timing -d 'print how long each stage took'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax "tensor put" "tensor get" "tensor ls" "tensor rm" "job ls" "job status" "job wait" "job result" "job cancel" bench "bench attention" "bench conv" "bench reduce" "bench softmax" "bench ladder" info metrics top ready' -l json -d 'print JSON'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l shm -d 'pass operands through shared memory'
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax bench "bench attention" "bench conv" "bench reduce" "bench softmax"' -l no-shm -d 'pass operands through the socket'
complete -c gemmctl -l url -s u -x -a 'http:// https:// unix:' -d 'address of the daemon'
complete -c gemmctl -l context -x -a '(__gemmctl_names contexts)' -d 'context with the address of the daemon'
complete -c gemmctl -l token-file -r -F -d 'file with the bearer token'
complete -c gemmctl -l ca-file -r -F -d 'file with the certificates to trust'
complete -c gemmctl -l cert-file -r -F -d 'file of the certificate of the client'
complete -c gemmctl -l key-file -r -F -d 'file of the private key of the certificate'
complete -c gemmctl -l traceparent -x -d 'traceparent to send'
complete -c gemmctl -l check-digest -d 'compare each answer with its SHA-256'
complete -c gemmctl -l timeout -s t -x -d 'longest time of a request with its repeats'
complete -c gemmctl -l retries -x -d 'repeats of a refused request'
complete -c gemmctl -l quiet -s q -d 'print nothing but results and errors'
complete -c gemmctl -l no-color -d 'print no colours'
complete -c gemmctl -l help -s h -d 'print help'
complete -c gemmctl -l version -d 'print the version'
