import {spawn} from 'node:child_process'
import {cp, mkdtemp, readFile, writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import type {SourceFile} from '../../helpers/import-lines.js'
import type {Profile} from '../scenario.js'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
export const CACHE = join(ROOT, '.cache')

/** A violation reported by an oracle. */
interface Report {
  readonly profile: Profile
  readonly seed: string
  readonly oracle: string
}

/** A copy of the sources, to plant faults in and play seeds with. */
export class Copy {
  /** Restores the original source. */
  restore: () => Promise<void> = async () => {}

  private constructor(readonly folder: string) {}

  static async make(): Promise<Copy> {
    const folder = await mkdtemp(join(CACHE, 'mutants-'))
    for (const name of ['src', 'test', 'templates', 'package.json', 'tsconfig.json'])
      await cp(join(ROOT, name), join(folder, name), {recursive: true})
    return new Copy(folder)
  }

  async plant({path, text}: SourceFile): Promise<void> {
    const place = join(this.folder, path)
    const sound = await readFile(place, 'utf8')
    this.restore = () => writeFile(place, sound)
    await writeFile(place, text)
  }

  /** Yields violations while seeds of some profiles are played, until the caller stops. */
  async *play(profiles: readonly Profile[], args: readonly string[]): AsyncGenerator<Report, void> {
    const node = [
      '--max-semi-space-size=64',
      '--disable-warning=ZAEL_UNLIMITED',
      '--disable-warning=ZAEL_SETTLE',
      '--import',
      'tsx',
    ]
    const chosen = profiles.flatMap(profile => ['--profile', profile])
    const options = [...node, 'test/simulation/main.ts', '--list', '--workers', '1', ...chosen, ...args]
    const child = spawn(process.execPath, options, {cwd: this.folder, stdio: ['ignore', 'pipe', 'inherit']})
    try {
      for await (const line of createInterface(child.stdout)) {
        const [profile, seed, oracle] = line.split(' ') as [Profile, string, string]
        yield {profile, seed, oracle}
      }
    } finally {
      child.kill('SIGKILL')
    }
  }

  /** Whether an oracle reports a violation for a seed. */
  async reports(profile: Profile, seed: string, oracle: string): Promise<boolean> {
    for await (const report of this.play([profile], ['--seed', seed])) if (report.oracle === oracle) return true
    return false
  }
}
