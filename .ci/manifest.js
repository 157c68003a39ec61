// Writes oclif.manifest.json from the built commands; with --check only says whether the committed file is current.
import {readFileSync, writeFileSync} from 'node:fs'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

process.env.OCLIF_DISABLE_ENGINE_WARNING ??= '1'
const {settings} = await import('@oclif/core/settings')
settings.enableAutoTranspile = false
const {Plugin} = await import('@oclif/core/config')

const root = fileURLToPath(new URL('..', import.meta.url))
const file = new URL('../oclif.manifest.json', import.meta.url)

const plugin = new Plugin({
  root,
  type: 'core',
  ignoreManifest: true,
  errorOnManifestCreate: true,
  respectNoCacheDefault: true,
})
await plugin.load()

// Commands are found in the file system's order, so they are sorted. Nothing inside a command is: the order of args matters.
const ids = Object.keys(plugin.manifest.commands).sort()
const commands = Object.fromEntries(ids.map(id => [id, plugin.manifest.commands[id]]))
const fresh = `${JSON.stringify({commands, version: plugin.manifest.version}, null, 2)}\n`

if (readCommitted() !== fresh) {
  if (process.argv.includes('--check')) {
    console.error('oclif.manifest.json does not match the commands: run "npm run build" and commit the file')
    process.exit(1)
  }
  writeFileSync(file, fresh)
  console.log(`oclif.manifest.json: ${ids.length} commands`)
}

function readCommitted() {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
