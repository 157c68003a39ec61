import {setFlagsFromString} from 'node:v8'

/**
 * Makes V8 collect garbage rather than grow. By default it lets twice as much pile up as is in use, which a view that is
 * left open for days on somebody's machine has no right to. (`--optimize-for-size` would save some MB more, but a key
 * would take half as long again.)
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=10')
}
