/**
 * What Pi is doing, as its events tell it: may a message be handed over now, is a run active.
 *
 * `isIdle` of Pi is the truth where it can be asked; events fill in what it does not tell apart
 * (a run from a compaction).
 */
/** Longest time that a prompt may take from `input` to its run: hooks, templates, a login that is refreshed. */
export const PREFLIGHT_MS = 5000;

export class Activity {
  readonly #isIdle: () => boolean;
  readonly #clock: () => number;
  #inputAt: number | undefined;
  #runActive = false;
  #compacting = false;
  #aborted = false;

  constructor(isIdle: () => boolean, clock: () => number) {
    this.#isIdle = isIdle;
    this.#clock = clock;
  }

  inputSeen(): void {
    if (this.idle) this.#inputAt = this.#clock();
  }

  runBegan(): void {
    this.#runActive = true;
    this.#aborted = false;
    this.#inputAt = undefined;
  }

  /** Whatever event was missed: a turn runs, so no compaction does. */
  turnBegan(): void {
    this.#runActive = true;
    this.#compacting = false;
  }

  settled(aborted: boolean): void {
    this.#runActive = false;
    this.#aborted = aborted;
  }

  compactionBegan(): void {
    this.#compacting = true;
  }

  compactionEnded(): void {
    this.#compacting = false;
  }

  get idle(): boolean {
    return this.#isIdle();
  }

  get inRun(): boolean {
    return this.#runActive && !this.idle;
  }

  get compacting(): boolean {
    return this.#compacting && !this.idle;
  }

  /** Neither idle nor in a run, or compacting: a message would be lost or run beside it. */
  get busy(): boolean {
    if (this.idle) return false;
    return this.#compacting || !this.#runActive;
  }

  /**
   * Somebody's prompt is on its way into a run. A message that starts a run of its own now would
   * make Pi refuse that prompt, so messages wait until the run is there.
   */
  get starting(): boolean {
    return this.#inputAt !== undefined && this.#clock() - this.#inputAt < PREFLIGHT_MS && this.idle;
  }

  /** The last run was stopped by a person, and none began since. */
  get stoppedByPerson(): boolean {
    return this.#aborted;
  }
}
