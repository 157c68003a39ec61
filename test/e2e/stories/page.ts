import {writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {ROOT} from '../zael.js'

export interface Story {
  readonly title: string
  /** Shown before the commands. */
  readonly text: string
  /** Commands with their output. */
  readonly shown: readonly string[]
}

/** The page shows this hour. */
const NIGHT = new Date('2026-11-16T03:00:00Z')

/** Resets of monthly quotas. */
const NEXT_MONTH = '2026-12-01 00:00'

const HOUR_MS = 3_600_000

export async function writePage(stories: readonly Story[], startedMs: number): Promise<void> {
  const parts = stories.map(({title, text, shown}) => {
    const transcript = shown.map(each => each.trimEnd()).join('\n\n')
    return `## ${title}\n\n${text}\n\n\`\`\`console\n${atNight(transcript, startedMs)}\n\`\`\`\n`
  })
  await writeFile(join(ROOT, 'docs', 'stories.md'), [INTRODUCTION, ...parts].join('\n'))
}

const INTRODUCTION = `# Operator tasks

These commands ran on a local stack (\`zael local up\`) while a service sent requests for 50 customers through the library.
On AWS, the commands are the same. A test runs them, checks their output and writes this page:

    ZAEL_TEST_SLOW=1 ZAEL_STORIES=write npm test -- test/e2e/stories
`

/** Shifts all instants by whole hours, so that minutes stay the same. Monthly resets stay at the start of a month. */
function atNight(text: string, startedMs: number): string {
  const hours = Math.floor(startedMs / HOUR_MS) - Math.floor(NIGHT.getTime() / HOUR_MS)
  const moved = (iso: string) => new Date(Date.parse(iso) - hours * HOUR_MS).toISOString()
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, iso => `${moved(iso).slice(0, 19)}Z`)
    .replaceAll(/(refused until )\d{4}-\d\d-01 00:00|(\d{4}-\d\d-\d\d) (\d\d:\d\d)/g, (_, reset, day, time) =>
      reset ? reset + NEXT_MONTH : moved(`${day}T${time}:00Z`).slice(0, 16).replace('T', ' '),
    )
}
