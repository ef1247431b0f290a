// What the client's own methods do with videos.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OpenAI, PROMPT, SHORT, aVideo, client, ended, fresh, refused, stranger } from './support.js';

test('a video is created and becomes a file', async () => {
  const video = await aVideo();
  assert.deepEqual([video.object, video.status, video.progress, video.error], ['video', 'completed', 100, null]);
  assert.deepEqual([video.size, video.prompt, video.num_frames, video.seed], ['64x32', PROMPT, 22, 7]);
  assert(video.created_at <= video.completed_at);
});

test('a size alone is enough', async () => {
  const { data, response } = await client.videos.create({ prompt: PROMPT, size: '96x64' }).withResponse();
  assert.deepEqual([data.status, data.size, data.progress], ['queued', '96x64', 0]);
  assert(Number(response.headers.get('openai-poll-after-ms')) >= 2000);
  assert(response.headers.get('x-request-id'));
  await client.videos.delete(data.id);
});

test('content comes whole and in parts', async () => {
  const { id } = await aVideo();
  const whole = Buffer.from(await (await client.videos.downloadContent(id)).arrayBuffer());
  assert.equal(whole.subarray(4, 8).toString(), 'ftyp');
  const part = await client.videos.downloadContent(id, { variant: 'video' }, { headers: { Range: 'bytes=10-109' } });
  assert.deepEqual([part.status, part.headers.get('content-range')], [206, `bytes 10-109/${whole.length}`]);
  assert(Buffer.from(await part.arrayBuffer()).equals(whole.subarray(10, 110)));
  const error = await refused(OpenAI.APIError, 'range_not_satisfiable', () =>
    client.videos.downloadContent(id, {}, { headers: { Range: `bytes=${whole.length}-` } }),
  );
  assert.equal(error.status, 416);
});

test('pictures of a video are variants of it', async () => {
  const { id } = await aVideo();
  for (const [variant, type, head] of [
    ['thumbnail', 'image/webp', 'RIFF'],
    ['spritesheet', 'image/jpeg', '\xff\xd8\xff'],
  ]) {
    const reply = await client.videos.downloadContent(id, { variant });
    assert.equal(reply.headers.get('content-type'), type);
    assert(Buffer.from(await reply.arrayBuffer()).toString('latin1').startsWith(head));
  }
});

test('a list is paged to its end', async () => {
  const of = fresh();
  const ids = [];
  for (let number = 0; number < 5; number += 1) {
    ids.push((await client.videos.create({ ...SHORT, metadata: { of } })).id);
  }
  const listed = async (asking, query, options) => {
    const found = [];
    for await (const video of asking.videos.list(query, options)) found.push(video.id);
    return found;
  };
  const filtered = { query: { 'metadata[of]': of, limit: 2, order: 'asc' } };
  assert.deepEqual(await listed(client, {}, filtered), ids);
  const all = await listed(client, { limit: 3, order: 'desc' });
  assert.equal(new Set(all).size, all.length);
  assert.deepEqual(all.filter((id) => ids.includes(id)), ids.toReversed());
  assert(!(await listed(stranger, {})).some((id) => ids.includes(id)));
  const page = await client.videos.list({ limit: 2 });
  assert(page.has_more && page.hasNextPage() && page.data.length === 2);
  for (const id of ids) await client.videos.delete(id);
});

test('a deleted video is gone', async () => {
  const { id } = await client.videos.create(SHORT);
  assert.equal((await client.videos.retrieve(id)).id, id);
  assert.deepEqual(await client.videos.delete(id), { id, object: 'video.deleted', deleted: true });
  await refused(OpenAI.NotFoundError, 'not_found', () => client.videos.retrieve(id));
  await refused(OpenAI.NotFoundError, 'not_found', () => client.videos.delete(id));
});

test('a remix keeps all but the prompt', async () => {
  const { id } = await aVideo();
  const remix = await client.videos.remix(id, { prompt: 'The boat sinks' });
  assert.deepEqual([remix.remixed_from_video_id, remix.prompt, remix.size], [id, 'The boat sinks', '64x32']);
  assert.equal((await ended(remix.id)).status, 'completed');
});

test('the models are listed', async () => {
  const models = [];
  for await (const model of client.models.list()) models.push(model.object);
  assert(models.length > 0 && models.every((object) => object === 'model'));
});
