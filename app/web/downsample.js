/**
 * Which values to draw on `columns` pixels: all of them while they fit, else the smallest and the largest of
 * each column, so that no peak is lost; always the first and the last.
 *
 * @param {number[]} values
 * @param {number} columns
 * @returns {number[]} rising indices
 */
export function downsample(values, columns) {
  const kept = new Set([0]);
  const size = Math.max(1, values.length / Math.max(1, columns));
  if (size <= 2) return [...values.keys()];
  for (let start = 0; start < values.length; start += size) {
    const [low, high] = extremes(values, Math.floor(start), Math.min(values.length, Math.floor(start + size)));
    kept.add(Math.min(low, high)).add(Math.max(low, high));
  }
  return [...kept.add(values.length - 1)];
}

function extremes(values, start, stop) {
  let low = start;
  let high = start;
  for (let index = start; index < stop; index += 1) {
    if (values[index] < values[low]) low = index;
    if (values[index] > values[high]) high = index;
  }
  return [low, high];
}
