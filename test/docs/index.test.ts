import {readdirSync, readFileSync} from 'node:fs'
import {join} from 'node:path'
import {expect, it} from 'vitest'
import {ROOT} from '../helpers/run-command.js'

const DOCS = join(ROOT, 'docs')

it('docs/README.md lists every page once', () => {
  const text = readFileSync(join(DOCS, 'README.md'), 'utf8')
  const listed = [...text.matchAll(/\]\(([^)#\s]+\.md)\)/g)].map(([, to]) => to).filter(to => !to?.startsWith('..'))
  const pages = readdirSync(DOCS, {recursive: true, encoding: 'utf8'})
    .map(path => path.replaceAll('\\', '/'))
    .filter(path => path.endsWith('.md') && path !== 'README.md')
  expect(listed.sort()).toEqual(pages.sort())
})
