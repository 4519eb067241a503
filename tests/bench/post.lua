-- For wrk: POSTs the contents of one file, over and over.
--   wrk -t4 -c128 -d5s -s tests/bench/post.lua URL -- BODY_FILE
-- Prints one "name value" a line. Refusals are counted apart, so that a fast refusal can't pass
-- for a fast product.

function init(arguments)
    local file = assert(io.open(arguments[1], "rb"))
    wrk.method = "POST"
    wrk.body = file:read("*a")
    wrk.headers["Content-Type"] = "application/octet-stream"
    file:close()
end

function done(summary, latency, requests)
    local errors = summary.errors
    local broken = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format("rate %.3f\n", summary.requests / summary.duration * 1e6))
    io.write(string.format("p50_us %d\n", latency:percentile(50)))
    io.write(string.format("p99_us %d\n", latency:percentile(99)))
    io.write(string.format("refused %d\n", errors.status))
    io.write(string.format("broken %d\n", broken))
end
