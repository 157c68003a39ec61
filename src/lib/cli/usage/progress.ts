import {nothingChanged} from '../output/interrupt.js'
import {withProgress} from '../output/progress.js'
import {keepHeapSmallest} from '../output/small-heap.js'

const WINDOWS_PER_REPORT = 1000

/** Adds up usage, shows how many windows were read (there may be a million), and stops with Ctrl-C. */
export function readWithProgress<T>(read: (onProgress: (windows: number) => void) => Promise<T>): Promise<T> {
  keepHeapSmallest()
  const interrupted = () => nothingChanged('usage.interrupted')
  return withProgress((line, signal) => {
    return read(windows => {
      if (signal.aborted) throw interrupted()
      if (windows % WINDOWS_PER_REPORT === 0) line.count('Windows read', windows)
    })
  }, interrupted)
}
