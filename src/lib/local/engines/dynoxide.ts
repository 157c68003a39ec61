import {access, constants} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {dirname, join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import {prepareDatabase} from './dynoxide-database.js'
import type {EngineKind, LocatedEngine} from './kind.js'

const PACKAGE = '@dynoxide/linux-x64'
const DATA_FILE = 'dynoxide.db'

/** An engine written in Rust: one static binary on SQLite that starts in milliseconds. */
export const dynoxide: EngineKind = {
  name: 'dynoxide',
  announcement: 'listening on',
  dataFile: DATA_FILE,
  prepare: dataDir => prepareDatabase(join(dataDir, DATA_FILE)),
  async locate(): Promise<LocatedEngine> {
    const {binary, version} = await findBinary()
    return {
      version,
      command: (port, dataDir) => [
        binary,
        'serve',
        '--host',
        '127.0.0.1',
        '--port',
        String(port),
        ...(dataDir === undefined ? [] : ['--db-path', join(dataDir, DATA_FILE)]),
      ],
    }
  },
}

async function findBinary(): Promise<{binary: string; version: string}> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new ZaelError(
      'failed',
      'engine.missing',
      `dynoxide is built for Linux on x64 only, and this is ${process.platform} on ${process.arch}`,
      {hint: 'Use the engine dynamodb-local, which needs a Java 17 development kit.'},
    )
  }
  try {
    const require = createRequire(import.meta.url)
    const description = `${PACKAGE}/package.json`
    const binary = join(dirname(require.resolve(description)), 'dynoxide')
    await access(binary, constants.X_OK)
    return {binary, version: require(description).version}
  } catch (cause) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide is not installed: no executable in ${PACKAGE}`, {
      hint: `Install it with \`npm install ${PACKAGE}\`, or without \`--omit=optional\`.`,
      cause,
    })
  }
}
