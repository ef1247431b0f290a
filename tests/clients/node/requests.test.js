// What the client has no methods for, through its raw requests.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LONG, OpenAI, SHORT, aVideo, client, ended, key, refused, url } from './support.js';

// Reads a video's events to their end.
async function events(id, last) {
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' };
  if (last !== undefined) headers['last-event-id'] = last;
  const reply = await fetch(`${url}/v1/videos/${id}/events`, { headers, signal: AbortSignal.timeout(60_000) });
  if (reply.status === 204) return [];
  assert(reply.headers.get('content-type').startsWith('text/event-stream'));
  const blocks = (await reply.text()).split('\n\n').filter((block) => block !== '' && !block.startsWith(':'));
  return blocks.map((block) => Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s, 2))));
}

test('a cancelled video stays and says so', async () => {
  const { id } = await client.videos.create(LONG);
  await client.post(`/videos/${id}/cancel`);
  const video = await ended(id);
  assert.deepEqual([video.status, video.error.code], ['failed', 'cancelled']);
  assert.equal((await client.post(`/videos/${id}/cancel`)).status, 'failed');
  assert.equal((await client.post(`/videos/${(await aVideo()).id}/cancel`)).status, 'completed');
  await client.videos.delete(id);
});

test('events lead to the end', async () => {
  const { id } = await client.videos.create({ ...SHORT, num_inference_steps: 40 });
  const heard = await events(id);
  assert.equal(heard.at(-1).event, 'video.completed');
  const objects = heard.map((event) => JSON.parse(event.data));
  assert(objects.every((video) => video.id === id));
  assert.equal(objects.at(-1).progress, 100);
  const late = await events(id, heard[0].id);
  assert.deepEqual(late.map((event) => event.event), ['video.completed']);
  assert.deepEqual(await events(id, heard.at(-1).id), []);
  const unknown = '/videos/video_gen_00000000000000000000000000000000/events';
  await refused(OpenAI.NotFoundError, 'not_found', () => client.get(unknown));
});

test('a request in JSON is as good', async () => {
  const video = await client.post('/videos', { body: { ...SHORT, metadata: { a: '1' } } });
  assert.deepEqual([video.status, video.metadata], ['queued', { a: '1' }]);
  await client.videos.delete(video.id);
});

test('the sync route gives the file', async () => {
  const reply = await client.post('/videos/sync', { body: SHORT, __binaryResponse: true });
  assert.equal(reply.headers.get('content-type'), 'video/mp4');
  assert.equal(Buffer.from(await reply.arrayBuffer()).subarray(4, 8).toString(), 'ftyp');
  assert.equal((await client.videos.retrieve(reply.headers.get('x-video-id'))).status, 'completed');
});
