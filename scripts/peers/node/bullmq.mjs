// The load of `clapboard bench queue --library-only` on BullMQ: node bullmq.mjs REDIS_PORT JOBS CONCURRENCY IDLE_JOBS
import { Queue, Worker } from "bullmq";
import { number, pause, report, Started } from "./load.mjs";

const [port, jobs, concurrency, idleJobs] = process.argv.slice(2).map(number);
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const queue = new Queue("peer", { connection });

let began = performance.now();
for (let job = 0; job < jobs; job++) await queue.add("noop", { job });
const pushed = performance.now() - began;

const started = new Started();
began = performance.now();
const worker = new Worker("peer", async ({ data }) => started.note(data.job), { connection, concurrency });
await started.until(jobs);
const drained = performance.now() - began;

const latencies = [];
for (let job = jobs; job < jobs + idleJobs; job++) {
  await pause(25);
  const sent = performance.now();
  await queue.add("noop", { job });
  latencies.push(await started.latencyOf(job, sent));
}
await worker.close();
await queue.close();
report("BullMQ 6.7.0", jobs, pushed, drained, latencies);
process.exit(0);
