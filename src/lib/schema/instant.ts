/** The first and last instants that can be spelled; a client may have stored any number. */
const LATEST_MS = 8.64e15

/** An instant as the table spells it: UTC, whole seconds. */
export function isoSeconds(ms: number): string {
  return isoMilliseconds(ms).replace(/\.\d+Z$/, 'Z')
}

export function isoMilliseconds(ms: number): string {
  return new Date(Math.min(Math.max(ms, -LATEST_MS), LATEST_MS)).toISOString()
}
