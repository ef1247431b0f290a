-- Counts one request by the generic cell rate algorithm, as Rate::decide does. The key holds when there may be a whole burst
-- again; the argument is how many requests a minute there may be.
-- Returns whether this one may go on, how many more may, and, in nanoseconds, until when a burst is whole again and until
-- when the next one may be.
--
-- A number holds 53 bits, too few for nanoseconds since 1970: times are whole seconds and nanoseconds within one, and only
-- their differences, of minutes, are put together.
local limit = tonumber(ARGV[1])
local each = math.floor(60000000000 / limit)
local burst = each * limit
local clock = redis.call('TIME')
local now_s, now_ns = tonumber(clock[1]), tonumber(clock[2]) * 1000

-- How long until a whole burst, from now.
local ahead = 0
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' and held.err then
    return held
end
if held then
    local s, ns = string.match(held, '^(%d+):(%d+)$')
    if s then
        ahead = (tonumber(s) - now_s) * 1000000000 + (tonumber(ns) - now_ns)
        -- What a clock that was set back would make too long is cut to a burst.
        ahead = math.min(math.max(ahead, 0), burst)
    end
end

local allowed = ahead + each <= burst
if allowed then
    ahead = ahead + each
    local sum = now_ns + ahead
    local s, ns = now_s + math.floor(sum / 1000000000), sum % 1000000000
    local life_ms = math.ceil(ahead / 1000000)
    local set = redis.pcall('SET', KEYS[1], string.format('%d:%d', s, ns), 'PX', string.format('%d', life_ms))
    if type(set) == 'table' and set.err then
        return set
    end
end
local room = math.max(burst - ahead, 0)
local remaining = math.floor(room / each)
local retry_after = 0
if remaining == 0 then
    retry_after = math.max(ahead + each - burst, 0)
end
return {allowed and 1 or 0, remaining, string.format('%.0f', ahead), string.format('%.0f', retry_after)}
