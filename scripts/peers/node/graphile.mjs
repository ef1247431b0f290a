// The load of `clapboard bench queue --library-only` on graphile-worker: node graphile.mjs DATABASE_URL JOBS CONCURRENCY IDLE_JOBS
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { number, pause, report, Started } from "./load.mjs";

const [connectionString, ...numbers] = process.argv.slice(2);
const [jobs, concurrency, idleJobs] = numbers.map(number);
// A line for each job would be a part of what is measured.
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ connectionString, logger });
await utils.migrate();

let began = performance.now();
for (let job = 0; job < jobs; job++) await utils.addJob("noop", { job });
const pushed = performance.now() - began;

const started = new Started();
began = performance.now();
const runner = await run({
  connectionString,
  concurrency,
  logger,
  noHandleSignals: true,
  taskList: { noop: async ({ job }) => started.note(job) },
});
await started.until(jobs);
const drained = performance.now() - began;

const latencies = [];
for (let job = jobs; job < jobs + idleJobs; job++) {
  await pause(25);
  const sent = performance.now();
  await utils.addJob("noop", { job });
  latencies.push(await started.latencyOf(job, sent));
}
await runner.stop();
await utils.release();
report("graphile-worker 0.18.0, unbatched", jobs, pushed, drained, latencies);
process.exit(0);
