-- Takes the member of the lowest score out of all sorted sets, the lower member of two equal scores.
-- Returns the number of its key, itself and its score, or nothing.
local best, best_member, best_score
for i, key in ipairs(KEYS) do
    local head = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    if head.err then
        return redis.error_reply(head.err .. ': ' .. key)
    end
    local member, score = head[1], head[2]
    if member then
        local rank = tonumber(score)
        local best_rank = best and tonumber(best_score)
        if not best or rank < best_rank or (rank == best_rank and member < best_member) then
            best, best_member, best_score = i, member, score
        end
    end
end
if not best then
    return false
end
redis.call('ZREM', KEYS[best], best_member)
return {best, best_member, best_score}
