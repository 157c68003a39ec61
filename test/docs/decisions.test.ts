import {readdirSync, readFileSync} from 'node:fs'
import {expect, it} from 'vitest'

const FOLDER = new URL('../../docs/decisions/', import.meta.url)
const RECORD = /^# (\d+)\. (.+)\n\nStatus: (Accepted|Superseded by \d{4}) · (\d{4}-\d\d-\d\d)\n/

const files = readdirSync(FOLDER)
  .filter(name => name !== 'README.md')
  .sort()

it('requires a number, a status, a date and a row in the index for every decision', () => {
  const rows = files.map(name => {
    const [, number, title, status, date] = RECORD.exec(readFileSync(new URL(name, FOLDER), 'utf8')) ?? []
    expect(Number(number), name).toBe(Number(name.slice(0, 4)))
    return `| ${number} | [${title}](${name}) | ${status} | ${date} |`
  })
  const index = readFileSync(new URL('README.md', FOLDER), 'utf8')
  expect(index.match(/^\| \d+ .*$/gm)).toEqual(rows)
})

it('numbers decisions without a gap, except 35 and 40', () => {
  const numbers = files.map(name => Number(name.slice(0, 4)))
  const last = numbers.at(-1) ?? 0
  expect(numbers).toEqual(Array.from({length: last}, (_, i) => i + 1).filter(number => ![35, 40].includes(number)))
})

it('limits decisions to 40 lines', () => {
  const lines = (name: string): number => readFileSync(new URL(name, FOLDER), 'utf8').trimEnd().split('\n').length
  expect(files.filter(name => lines(name) > 40)).toEqual([])
})
