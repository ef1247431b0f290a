// Webhook endpoints through the client's methods, and deliveries through its checks of signatures.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { OpenAI, Receiver, SHORT, Webhook, client, fresh, refused, stranger } from './support.js';

const BOTH = ['video.completed', 'video.failed'];
const receiver = new Receiver();

before(() => receiver.start());
after(() => receiver.stop());

// An endpoint that hears on a path of its own.
async function withEndpoint(test) {
  const path = `/${fresh()}`;
  const endpoint = await client.webhooks.create({ event_types: BOTH, name: 'suite', url: receiver.url(path) });
  try {
    await test(endpoint, path);
  } finally {
    await client.webhooks.delete(endpoint.id);
  }
}

const verified = (heard, secret) => client.webhooks.unwrap(heard.body, new Headers(heard.headers), secret);

test('endpoints are made, found, changed and deleted', () =>
  withEndpoint(async (made) => {
    assert(made.signing_secret.startsWith('whsec_'));
    const found = await client.webhooks.retrieve(made.id);
    assert.deepEqual([found.object, found.url, found.signing_secret], ['webhook_endpoint', made.url, undefined]);
    const changed = await client.webhooks.update(made.id, { name: 'other', event_types: ['video.failed'] });
    assert.deepEqual([changed.name, changed.event_types, changed.url], ['other', ['video.failed'], made.url]);
    const second = await client.webhooks.create({ event_types: BOTH, name: 'x', url: receiver.url('/unused') });
    const listed = [];
    for await (const endpoint of client.webhooks.list({ limit: 1 })) listed.push(endpoint.id);
    assert(listed.includes(made.id) && listed.includes(second.id));
    await refused(OpenAI.NotFoundError, 'not_found', () => stranger.webhooks.retrieve(made.id));
    const deleted = await client.webhooks.delete(second.id);
    assert.deepEqual([deleted.id, deleted.deleted], [second.id, true]);
    await refused(OpenAI.NotFoundError, 'not_found', () => client.webhooks.retrieve(second.id));
    assert.deepEqual((await client.webhooks.eventTypes.list()).data.toSorted(), BOTH);
  }));

test('the end of a video comes signed', () =>
  withEndpoint(async (endpoint, path) => {
    const { id } = await client.videos.create(SHORT);
    const [heard] = await receiver.wait(path);
    const event = await verified(heard, endpoint.signing_secret);
    assert.deepEqual([event.type, event.data.id, event.id], ['video.completed', id, heard.headers['webhook-id']]);
    assert.deepEqual(new Webhook(endpoint.signing_secret).verify(heard.body, heard.headers), JSON.parse(heard.body));
    const forged = { ...heard, body: `${heard.body} ` };
    await assert.rejects(() => verified(forged, endpoint.signing_secret), OpenAI.InvalidWebhookSignatureError);
    assert.throws(() => new Webhook(endpoint.signing_secret).verify(forged.body, forged.headers));
  }));

test('a rotated secret may leave the old one good for a day', () =>
  withEndpoint(async (endpoint, path) => {
    const keep = { keep_old_secret_active_for_24_hours: true };
    const rotated = await client.webhooks.rotateSecret(endpoint.id, keep);
    const result = await client.webhooks.test(endpoint.id, { event_type: 'video.completed' });
    assert.deepEqual([result.object, result.status_code], ['webhook_endpoint.test', 200]);
    const [heard] = await receiver.wait(path);
    for (const secret of [endpoint.signing_secret, rotated.signing_secret]) {
      await verified(heard, secret);
      new Webhook(secret).verify(heard.body, heard.headers);
    }
    const last = await client.webhooks.rotateSecret(endpoint.id, {});
    await client.webhooks.test(endpoint.id, { event_type: 'video.failed' });
    const [, again] = await receiver.wait(path, 2);
    assert.equal((await verified(again, last.signing_secret)).type, 'video.failed');
    await assert.rejects(() => verified(again, rotated.signing_secret), OpenAI.InvalidWebhookSignatureError);
  }));

test('a job has a webhook of its own', async () => {
  const path = `/${fresh()}`;
  const { signing_secret } = await client.get('/webhook_secret');
  const { id } = await client.videos.create({ ...SHORT, webhook_url: receiver.url(path), webhook_events: BOTH });
  const [heard] = await receiver.wait(path);
  const event = await verified(heard, signing_secret);
  assert.deepEqual([event.type, event.data.id], ['video.completed', id]);
});
