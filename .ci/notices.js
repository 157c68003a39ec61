// Writes dist/THIRD-PARTY-NOTICES: the licences of all packages of which the bundles in dist include a file. Call it after them.
import {readdirSync, readFileSync, writeFileSync} from 'node:fs'
import {join} from 'node:path'
import {root} from './bundle-options.js'

const CONTENTS = ['chunks/contents.json', 'lib/contents.json', 'lambda/contents.json']
const files = CONTENTS.flatMap(name => Object.values(JSON.parse(readFileSync(join(root, 'dist', name), 'utf8'))).flat())
const folders = files
  .map(file => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0])
  .filter(folder => folder !== undefined)

/** Texts of licences, with the packages that they are for. */
const packages = new Map()
for (const folder of new Set(folders)) {
  const description = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  const {name, version, license} = description
  const text = licenceIn(folder) ?? namedLicence(description)
  packages.set(text, (packages.get(text) ?? new Set()).add(`${name} ${version} (${license})`))
}
const sections = [...packages].map(([text, names]) => `${[...names].sort().join('\n')}\n\n${text}\n`).sort()
const RULE = `\n${'-'.repeat(80)}\n\n`
const head = 'zael includes these packages, or parts of them.\n'
writeFileSync(join(root, 'dist', 'THIRD-PARTY-NOTICES'), [head, ...sections].join(RULE))
console.log(`THIRD-PARTY-NOTICES: ${new Set(folders).size} packages`)

/** The licence, and the notice that Apache's licence asks to pass on. */
function licenceIn(folder) {
  const names = readdirSync(join(root, folder))
    .filter(name => /^(licen[cs]e|notice|copying)(\.|-|$)/i.test(name))
    .sort()
  const texts = names.map(name =>
    readFileSync(join(root, folder, name), 'utf8')
      .replaceAll('\r', '')
      .trim(),
  )
  return texts.length === 0 ? undefined : texts.join('\n\n')
}

/** Some packages only name their licence. */
function namedLicence({name, license, author}) {
  if (license === 'Apache-2.0') return licenceIn('node_modules/@aws-sdk/client-dynamodb')
  if (license !== 'MIT') throw new Error(`${name} has no file with its licence, ${license}`)
  return readFileSync(join(root, 'LICENSE'), 'utf8')
    .replace(/^Copyright.*$/m, `Copyright (c) ${author}`)
    .trim()
}
