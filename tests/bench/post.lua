-- For wrk: POSTs the contents of one file, over and over, or of many files in turn.
--   wrk -t4 -c128 -d5s -s tests/bench/post.lua URL -- BODY_FILE
--   wrk -t4 -c128 -d5s -s tests/bench/post.lua URL -- --list LIST
-- LIST has one request a line: target (path and query), a tab, body file. Every thread begins at
-- another place of it. Prints one "name value" a line. Refusals are counted apart, so that a fast
-- refusal can't pass for a fast product.

local requests, at = {}, 0
local threads = 0

function setup(thread)
    thread:set("place", threads)
    threads = threads + 1
end

local function contents(path)
    local file = assert(io.open(path, "rb"))
    local bytes = file:read("*a")
    file:close()
    return bytes
end

function init(arguments)
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/octet-stream"
    if arguments[1] ~= "--list" then
        wrk.body = contents(arguments[1])
        return
    end
    for line in io.lines(arguments[2]) do
        local target, body = line:match("^(.-)\t(.*)$")
        requests[#requests + 1] = wrk.format(nil, target, nil, contents(body))
    end
    at = place * 37 % #requests
    request = function()
        at = at % #requests + 1
        return requests[at]
    end
end

function done(summary, latency, requests)
    local errors = summary.errors
    local broken = errors.connect + errors.read + errors.write + errors.timeout
    io.write(string.format("requests %d\n", summary.requests))
    io.write(string.format("rate %.3f\n", summary.requests / summary.duration * 1e6))
    io.write(string.format("p50_us %d\n", latency:percentile(50)))
    io.write(string.format("p99_us %d\n", latency:percentile(99)))
    io.write(string.format("p999_us %d\n", latency:percentile(99.9)))
    io.write(string.format("refused %d\n", errors.status))
    io.write(string.format("broken %d\n", broken))
end
