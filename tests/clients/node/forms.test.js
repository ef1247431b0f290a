// How the client encodes what it is given, and that all of it arrives.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { OpenAI, SHORT, client, pictures, refused, toFile } from './support.js';

async function create(more) {
  const made = await client.videos.create({ ...SHORT, ...more });
  await client.videos.delete(made.id);
  return made;
}

const dataUrl = (picture) => `data:image/png;base64,${picture.toString('base64')}`;

test('nested parameters arrive as objects', async () => {
  const made = await create({ extra_params: { task: 't2va', target: { aspect_ratio: '1:1' } }, size: '64x64' });
  assert.equal(made.task, 't2va');
  assert.deepEqual((await create({ metadata: { a: '1', b: '2' } })).metadata, { a: '1', b: '2' });
  assert.deepEqual((await create({ metadata: '{"a": "1"}' })).metadata, { a: '1' });
});

test('an upload needs neither a name nor a type', async () => {
  const [first] = pictures();
  assert.equal((await create({ input_reference: new Blob([first]) })).task, 'fl2va');
  assert.equal((await create({ input_reference: await toFile(first) })).task, 'fl2va');
  assert.equal((await create({ input_reference: await toFile(first, 'картинка ☃.png') })).task, 'fl2va');
});

test('an object stands for a file', async () => {
  // input_reference[image_url]
  assert.equal((await create({ input_reference: { image_url: dataUrl(pictures()[0]) } })).task, 'fl2va');
});

test('lists of files and of objects are taken in their order', async () => {
  const [first, last] = pictures();
  const files = await Promise.all([toFile(first, 'first.png'), toFile(last, 'last.png')]);
  // input_references[], input_reference[], image_reference[][image_url]
  for (const field of ['input_references', 'input_reference']) {
    assert.equal((await create({ [field]: files, extra_params: { task: 'fl2va' } })).task, 'fl2va');
  }
  const references = [{ image_url: dataUrl(first) }, { image_url: dataUrl(last) }];
  assert.equal((await create({ image_reference: references })).task, 'fl2va');
  assert.equal((await create({ image_reference: JSON.stringify(references) })).task, 'fl2va');
});

test('a file that cannot be read is refused', async () => {
  for (const broken of [Buffer.alloc(0), Buffer.from('no picture'), pictures()[0].subarray(0, 60)]) {
    const file = await toFile(broken, 'a.png');
    const call = () => create({ input_reference: file });
    const error = await refused(OpenAI.BadRequestError, 'invalid_reference_media', call);
    assert.equal(error.param, 'input_reference');
  }
});
