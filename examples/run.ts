import {existsSync, readdirSync} from 'node:fs'
import {fileURLToPath} from 'node:url'

// `npm run example NAME`: NAME is a folder here that has a main.ts.
const mainOf = (name: string) => new URL(`${name}/main.ts`, import.meta.url)
const names = readdirSync(fileURLToPath(new URL('.', import.meta.url))).filter(name => existsSync(mainOf(name)))
const [name = ''] = process.argv.slice(2)

if (names.includes(name)) await import(mainOf(name).href)
else {
  console.error(
    `Which example? npm run example ${names.join(' | ')}\nWith "-- --serve" at the end it goes on until Ctrl-C.`,
  )
  process.exitCode = 2
}
