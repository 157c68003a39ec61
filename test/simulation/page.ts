import {readFile, writeFile} from 'node:fs/promises'

const PAGE = new URL('../../docs/how-tested.md', import.meta.url)

/** The generated tables of docs/how-tested.md, and the command of each. */
const COMMANDS = {
  seeds: 'npm run simulate -- --seeds N --write',
  orders: 'npm run simulate -- --orders N --write',
  faults: 'npm run mutate -- --write',
} as const

/** Replaces one table of the page and keeps the others. */
export async function writeTable(name: keyof typeof COMMANDS, table: string): Promise<void> {
  await writeFile(PAGE, withTable(await readFile(PAGE, 'utf8'), name, table))
}

export function withTable(page: string, name: keyof typeof COMMANDS, table: string): string {
  const [begin, end] = [`<!-- ${name}, written by: ${COMMANDS[name]} -->`, `<!-- end of ${name} -->`]
  const [from, to] = [page.indexOf(begin), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`docs/how-tested.md has no place for the table of ${name}`)
  return `${page.slice(0, from)}${begin}\n\n${table}\n\n${page.slice(to)}`
}
