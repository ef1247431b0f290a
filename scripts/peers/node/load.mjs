// What both loads share: a counter to wait for, and the report.

export const number = (text) => Number.parseInt(text, 10);

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Started {
  #times = new Map();

  note(job) {
    this.#times.set(job, performance.now());
  }

  async until(count) {
    while (this.#times.size < count) await new Promise(setImmediate);
  }

  async latencyOf(job, sent) {
    while (!this.#times.has(job)) await new Promise(setImmediate);
    return this.#times.get(job) - sent;
  }
}

export function report(peer, jobs, pushedMs, drainedMs, latencies) {
  latencies.sort((a, b) => a - b);
  const at = (share) => Number(latencies[Math.round((latencies.length - 1) * share)].toFixed(2));
  const perSecond = (ms) => Math.round((jobs * 1000) / ms);
  console.log(
    JSON.stringify({
      peer,
      push_per_s: perSecond(pushedMs),
      drain_per_s: perSecond(drainedMs),
      idle_p50_ms: at(0.5),
      idle_p99_ms: at(0.99),
    }),
  );
}
