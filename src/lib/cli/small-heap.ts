import {setFlagsFromString} from 'node:v8'

/**
 * Makes V8 collect garbage rather than grow, and close the gaps. By default it lets twice as much pile up as is in use,
 * which a view that is left open for days on somebody's machine has no right to.
 */
export function keepHeapSmall(): void {
  for (const flag of ['--semi-space-growth-factor=1', '--heap-growing-percent=10', '--optimize-for-size']) {
    setFlagsFromString(flag)
  }
}
