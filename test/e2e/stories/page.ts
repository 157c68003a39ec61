import {writeFile} from 'node:fs/promises'
import {join} from 'node:path'
import {ROOT} from '../zael.js'

/** One story, as it is told in docs/stories.md. */
export interface Story {
  readonly title: string
  /** What happened before the first command. */
  readonly text: string
  /** Commands and what they printed. */
  readonly shown: readonly string[]
}

/** When the stories take place: 3 o'clock at night. */
const NIGHT = new Date('2026-11-16T03:00:00Z')

const HOUR_MS = 3_600_000

/** Writes docs/stories.md. */
export async function writePage(stories: readonly Story[], startedMs: number): Promise<void> {
  const parts = stories.map(({title, text, shown}) => {
    const transcript = shown.map(each => each.trimEnd()).join('\n\n')
    return `## ${title}\n\n${text}\n\n\`\`\`console\n${atNight(transcript, startedMs)}\n\`\`\`\n`
  })
  await writeFile(join(ROOT, 'docs', 'stories.md'), [INTRODUCTION, ...parts].join('\n'))
}

const INTRODUCTION = `# Seven stories of an operator

What one does with zael when something is wrong, or is to be changed, with what it prints. The commands ran on a local stack
(\`zael local up\`) while a service made requests for 50 customers with the library; \`cust-08\` is one of them. On a stack in AWS they are the
same. The page is written by the test that plays the stories and checks them:

    ZAEL_TEST_SLOW=1 ZAEL_STORIES=write npm test -- test/e2e/stories
`

/** All instants as many hours earlier or later as it takes, so that hours and minutes stay what they are. */
function atNight(text: string, startedMs: number): string {
  const hours = Math.floor(startedMs / HOUR_MS) - Math.floor(NIGHT.getTime() / HOUR_MS)
  const moved = (iso: string) => new Date(Date.parse(iso) - hours * HOUR_MS).toISOString()
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, iso => `${moved(iso).slice(0, 19)}Z`)
    .replaceAll(/(\d{4}-\d\d-\d\d) (\d\d:\d\d)/g, (_, day, time) =>
      moved(`${day}T${time}:00Z`).slice(0, 16).replace('T', ' '),
    )
}
