import {existsSync, readdirSync, readFileSync} from 'node:fs'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect, it} from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const pages = [
  ...readdirSync(ROOT).filter(name => name.endsWith('.md') || name === 'llms.txt'),
  ...['docs', 'bench'].flatMap(folder =>
    readdirSync(join(ROOT, folder), {recursive: true, encoding: 'utf8'})
      .filter(name => name.endsWith('.md'))
      .map(name => join(folder, name)),
  ),
]

it.each(pages)('every link of %s leads to a file or folder of this repository', page => {
  const links = [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(
    ([, to]) => to ?? '',
  )
  const inside = links.filter(to => !/^[a-z]+:/.test(to))
  expect(inside.filter(to => !existsSync(join(ROOT, dirname(page), to)))).toEqual([])
})
