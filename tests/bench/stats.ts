/** Numbers of the benchmark: order statistics, and ratios round by round. */

export function quantile(values: number[], q: number): number {
    const sorted = [...values].sort((a, b) => a - b);
    if (sorted.length === 0) return NaN;
    const at = (sorted.length - 1) * q;
    const low = sorted[Math.floor(at)] ?? NaN;
    const high = sorted[Math.ceil(at)] ?? NaN;
    return low + (high - low) * (at - Math.floor(at));
}

export function median(values: number[]): number {
    return quantile(values, 0.5);
}

/** Median over the rounds of value / baseline: a slow moment of the machine hits both of a round. */
export function ratioOf(values: number[], baselines: number[]): number {
    return median(values.map((v, i) => v / (baselines[i] ?? NaN)));
}
