// What the client throws, and what its errors tell.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OpenAI, SHORT, aVideo, client, clientOf, fresh, limited, reader, refused, stranger } from './support.js';

test('a bad request names its field', async () => {
  for (const [fields, code, param] of [
    [{ prompt: '' }, 'missing_required_parameter', 'prompt'],
    [{ size: '64' }, 'invalid_value', 'size'],
    [{ model: 'another' }, 'model_not_found', 'model'],
    [{ seconds: '99' }, 'invalid_duration', 'seconds'],
    [{ fps: 25 }, 'invalid_fps', 'fps'],
    [{ lora: { name: 'a', path: 'b' } }, 'unsupported_parameter', 'lora'],
  ]) {
    const create = () => client.videos.create({ ...SHORT, num_frames: undefined, ...fields });
    const error = await refused(OpenAI.BadRequestError, code, create);
    assert.deepEqual([error.status, error.type, error.param], [400, 'invalid_request_error', param]);
    assert(error.requestID && error.error.message);
  }
});

test('unknown and foreign videos are not found', async () => {
  const { id } = await aVideo();
  const unknown = 'video_gen_00000000000000000000000000000000';
  await refused(OpenAI.NotFoundError, 'not_found', () => client.videos.retrieve(unknown));
  await refused(OpenAI.NotFoundError, 'not_found', () => stranger.videos.retrieve(id));
});

test('a key that nobody has made is refused', async () => {
  const nobody = clientOf('sk-clapboard-unknown');
  const error = await refused(OpenAI.AuthenticationError, 'invalid_api_key', () => nobody.videos.list());
  assert.equal(error.type, 'authentication_error');
});

test('a key may do what its scopes say', async () => {
  const { id } = await aVideo();
  assert.equal((await reader.videos.retrieve(id)).id, id);
  for (const call of [
    () => reader.videos.create(SHORT),
    () => reader.videos.delete(id),
    () => reader.webhooks.list(),
  ]) {
    await refused(OpenAI.PermissionDeniedError, 'insufficient_scope', call);
  }
});

test('a name is good for one request', async () => {
  const headers = { 'Idempotency-Key': fresh() };
  const first = await client.videos.create(SHORT, { headers });
  const { data, response } = await client.videos.create(SHORT, { headers }).withResponse();
  assert.deepEqual([data.id, response.headers.get('idempotency-replayed')], [first.id, 'true']);
  // With the client's own retries: it has to see that there is no point in them.
  const other = () => client.videos.create({ ...SHORT, prompt: 'Another' }, { headers, maxRetries: 2 });
  const error = await refused(OpenAI.ConflictError, 'idempotency_key_reused', other);
  assert.equal(error.headers.get('x-should-retry'), 'false');
  await client.videos.delete(first.id);
});

test('a rate is told and kept', async () => {
  const { data, response } = await limited.videos.create(SHORT).withResponse();
  assert.equal(response.headers.get('x-ratelimit-limit-requests'), '1');
  assert.equal(response.headers.get('x-ratelimit-remaining-requests'), '0');
  const error = await refused(OpenAI.RateLimitError, 'rate_limit_exceeded', () => limited.videos.create(SHORT));
  assert(Number(error.headers.get('retry-after')) >= 1 && Number(error.headers.get('retry-after-ms')) <= 60_000);
  await limited.videos.delete(data.id);
});

test('what is decided against is said and not tried again', async () => {
  const call = () => client.videos.getCharacter('char_1', { maxRetries: 2 });
  const error = await refused(OpenAI.InternalServerError, 'unsupported', call);
  assert.deepEqual([error.status, error.headers.get('x-should-retry')], [501, 'false']);
});
