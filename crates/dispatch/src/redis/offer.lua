-- Adds members to a sorted set until it holds as many as there is room for: room, then the score and the member of each.
-- Returns how many were not there before.
-- Errors are passed on as the commands give them, so that an outage is known as one.
local room = tonumber(ARGV[1])
local pushed = 0
local held = redis.pcall('ZCARD', KEYS[1])
if type(held) == 'table' then
    return held
end
for i = 2, #ARGV, 2 do
    if held >= room then
        break
    end
    local added = redis.pcall('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
    if type(added) == 'table' then
        return added
    end
    held = held + added
    pushed = pushed + added
end
return pushed
