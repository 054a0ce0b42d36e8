/** The names nearest to a misspelt one, best first, at most three; none when all are far. */
export function findSimilar(name: string, known: readonly string[]): readonly string[] {
  const most = Math.max(1, Math.floor(name.length / 3));
  return known
    .map((each) => ({ each, distance: each.startsWith(name) ? 1 : computeDistance(name, each) }))
    .filter(({ each, distance }) => distance <= most && each !== name)
    .sort((a, b) => a.distance - b.distance || a.each.localeCompare(b.each))
    .slice(0, 3)
    .map(({ each }) => each);
}

/** Levenshtein's distance, with two letters in the wrong order counted once. */
function computeDistance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const at = (r: number, c: number): number =>
        (r === i ? row[c] : rows[r]?.[c]) ?? Number.POSITIVE_INFINITY;
      const change = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, change, swapped ? at(i - 2, j - 2) + 1 : change));
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? Number.POSITIVE_INFINITY;
}
