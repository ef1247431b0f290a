// The clients of the suite: one service, and keys of two tenants, named by the environment (see ../README.md).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// The packages lie in the target folder, not beside the suite.
const require = createRequire(`${setting('MODULES')}/`);
export const { OpenAI, toFile } = require('openai');
export const { Webhook } = require('standardwebhooks');

// The smallest job that there is, and one that is still at work when something is done about it.
export const PROMPT = 'A paper boat on a pond';
export const SHORT = { prompt: PROMPT, size: '64x32', num_frames: 22, num_inference_steps: 2, seed: 7 };
export const LONG = { prompt: PROMPT, size: '96x64', num_frames: 56, num_inference_steps: 200, seed: 7 };

function setting(name) {
  const value = process.env[`CLAPBOARD_TEST_${name}`];
  assert(value, `CLAPBOARD_TEST_${name} is not set`);
  return value;
}

export const url = setting('URL');
export const key = setting('KEY');

export function clientOf(apiKey, options = {}) {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, ...options });
}

// May do everything; may only look; may ask for one video a minute; is of another tenant.
export const client = clientOf(key);
export const reader = clientOf(setting('READER_KEY'));
export const limited = clientOf(setting('LIMITED_KEY'));
export const stranger = clientOf(setting('STRANGER_KEY'));

// A text that no other run has used.
export const fresh = () => randomUUID().replaceAll('-', '');

// Waits until a video has ended.
export async function ended(id) {
  for (;;) {
    const video = await client.videos.retrieve(id);
    if (video.status === 'completed' || video.status === 'failed') return video;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

// A finished video, made when it is first asked for.
let finished;
export function aVideo() {
  finished ??= client.videos.create(SHORT).then((video) => ended(video.id));
  return finished;
}

// Two pictures that a video can start and end with.
let made;
export function pictures() {
  if (made === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'pictures-'));
    made = ['96x96', '112x96'].map((size) => {
      const file = join(folder, `${size}.png`);
      const source = ['-f', 'lavfi', '-i', `testsrc2=size=${size}:rate=1`, '-frames:v', '1'];
      execFileSync('ffmpeg', ['-v', 'error', '-y', ...source, file]);
      return readFileSync(file);
    });
    rmSync(folder, { recursive: true });
  }
  return made;
}

// Asserts that a call is refused as it should be, and returns the error.
export async function refused(kind, code, call) {
  let error;
  try {
    await call();
  } catch (caught) {
    error = caught;
  }
  assert(error instanceof kind, `${error ?? 'nothing'} in place of ${kind.name}`);
  assert.equal(error.code, code, error.message);
  return error;
}

// Hears webhooks on a port of this machine, and answers 200 to all of them.
export class Receiver {
  #heard = [];
  #server = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      this.#heard.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
      response.end();
    });
  });

  async start() {
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  url(path) {
    return `http://127.0.0.1:${this.#server.address().port}${path}`;
  }

  async wait(path, count = 1) {
    const deadline = Date.now() + 60_000;
    while (Date.now() < deadline) {
      const found = this.#heard.filter((heard) => heard.path === path);
      if (found.length >= count) return found;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.fail(`${count} webhooks did not come to ${path} in time`);
  }
}
