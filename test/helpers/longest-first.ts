import {relative} from 'node:path'
import {BaseSequencer, type TestSpecification} from 'vitest/node'
import {LONGEST} from './longest-files.js'

/** Starts the files of LONGEST before all others, which keep vitest's order. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({moduleId}: TestSpecification) => {
      const index = LONGEST.indexOf(relative(this.ctx.config.root, moduleId).replaceAll('\\', '/'))
      return index < 0 ? LONGEST.length : index
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}
