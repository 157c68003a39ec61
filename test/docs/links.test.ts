import {existsSync, readdirSync, readFileSync} from 'node:fs'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect, it} from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const pages = [
  ...readdirSync(ROOT).filter(name => name.endsWith('.md') || name === 'llms.txt'),
  ...['docs', 'bench', 'examples'].flatMap(folder =>
    readdirSync(join(ROOT, folder), {recursive: true, encoding: 'utf8'})
      .filter(name => name.endsWith('.md'))
      .map(name => join(folder, name)),
  ),
]

it.each(pages)('%s links only to existing files and folders', page => {
  const links = [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(
    ([, to]) => to ?? '',
  )
  const inside = links.filter(to => !/^[a-z]+:/.test(to))
  expect(inside.filter(to => !existsSync(join(ROOT, dirname(page), to)))).toEqual([])
})

/** The headings of a page as GitHub makes addresses of them. */
function anchorsOf(page: string): string[] {
  const headings = [...readFileSync(page, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, words = '']) => words)
  return headings.map(words =>
    words
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

it.each(pages)('%s links only to existing headings', page => {
  const links = [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#\s:]*)#([^)\s]+)\)/g)]
  const missing = links.filter(([, to = '', anchor = '']) => {
    const target = to === '' ? join(ROOT, page) : join(ROOT, dirname(page), to)
    return target.endsWith('.md') && !anchorsOf(target).includes(anchor)
  })
  expect(missing.map(([link]) => link)).toEqual([])
})
