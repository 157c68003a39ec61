import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {describe, expect, it} from 'vitest'
import {ROOT} from '../e2e/zael.js'

/** Modules of each file of the library. */
const contents: Record<string, string[]> = JSON.parse(readFileSync(join(ROOT, 'dist/lib/contents.json'), 'utf8'))

const ROOMS = ['adapters', 'core', 'dynamo', 'files', 'index.ts', 'limiter', 'local', 'repository', 'schema']

/** Files that loading a file loads; with `onDemand`, also those that it may load later. */
function loadedBy(file: string, onDemand: boolean): Set<string> {
  const loaded = new Set([file])
  for (const each of loaded) {
    const text = readFileSync(join(ROOT, each), 'utf8')
    const imports = onDemand ? /(?:from|import\(?)\s*"(\.[^"]+)"/g : /from\s*"(\.[^"]+)"/g
    for (const [, path = ''] of text.matchAll(imports)) loaded.add(join(each, '..', path))
  }
  return loaded
}

/** Packages that a file imports. */
function packagesOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  const imports = [...text.matchAll(/(?:from|import\(?)\s*"([^".][^"]*)"/g)].map(([, name = '']) => name)
  return imports.filter(name => !name.startsWith('node:'))
}

const entries: string[] = Object.values<{default?: string}>(
  JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).exports,
).flatMap(target => target.default?.slice('./'.length) ?? [])

describe('the library', () => {
  it.each(entries)('loads nothing of the command line: %s', entry => {
    const modules = [...loadedBy(entry, true)].flatMap(file => contents[file] ?? [`${file} is not part of it`])
    const rooms = modules.filter(path => path.startsWith('src/')).map(path => path.split('/')[2])
    expect([...new Set(rooms)].filter(room => !ROOMS.includes(room as string))).toEqual([])
    const others = modules.filter(path => !/^(?:src\/lib|group:library)\b/.test(path))
    expect(others).toEqual([])
    expect(modules.length).toBeGreaterThan(0)
  })

  it('contains every module once, so that no class exists twice', () => {
    const modules = Object.values(contents).flat()
    expect(modules.length).toBeGreaterThan(100)
    expect(modules.filter((module, at) => modules.indexOf(module) !== at)).toEqual([])
  })

  it('imports only the packages that package.json declares', () => {
    expect(new Set(Object.keys(contents).flatMap(packagesOf))).toEqual(
      new Set(['#yaml', '@aws-sdk/client-dynamodb', '@opentelemetry/api']),
    )
  })

  it('loads at most four files for zael, and neither the SDK nor yaml', () => {
    const files = [...loadedBy('dist/lib/index.js', false)]
    expect(files.length).toBeLessThanOrEqual(4)
    expect(files.flatMap(file => contents[file] ?? []).filter(path => path.startsWith('node_modules/'))).toEqual([])
    const texts = files.map(file => readFileSync(join(ROOT, file), 'utf8'))
    expect(texts.filter(text => /from\s*"@aws-sdk/.test(text))).toEqual([])
  })
})
