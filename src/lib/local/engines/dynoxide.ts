import {existsSync, readFileSync} from 'node:fs'
import {access, constants, rename, writeFile} from 'node:fs/promises'
import {createRequire} from 'node:module'
import {dirname, join} from 'node:path'
import {ZaelError} from '../../core/errors.js'
import type {Transport} from '../../dynamo/transport.js'
import {packageFile} from '../../files/package-file.js'
import type {EngineKind, LocatedEngine} from './kind.js'
import {emptyDatabase, type SchemaEntry} from './sqlite-file.js'

/** Each has a package that is an optional dependency of zael; npm installs the one that fits. */
const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'win32-x64']
const DATA_FILE = 'dynoxide.db'

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

export async function findBinary(
  {platform, arch}: {platform: string; arch: string} = process,
  from: string = import.meta.url,
): Promise<{binary: string; version: string}> {
  if (!PLATFORMS.includes(`${platform}-${arch}`)) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide does not support ${platform} on ${arch}`, {
      hint: 'Use the engine dynamodb-local, which needs a Java 17 development kit.',
    })
  }
  const name = `@dynoxide/${platform}-${arch}`
  try {
    const require = createRequire(from)
    const description = `${name}/package.json`
    const binary = join(dirname(require.resolve(description)), platform === 'win32' ? 'dynoxide.exe' : 'dynoxide')
    await access(binary, constants.X_OK)
    return {binary, version: require(description).version}
  } catch (cause) {
    throw new ZaelError('failed', 'engine.missing', `dynoxide is not installed: no executable in ${name}`, {
      hint: `npm install ${name}@${wantedVersion(name)}`,
      cause,
    })
  }
}

/** The prepared database works with one version only. */
function wantedVersion(name: string): string {
  const {optionalDependencies} = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'))
  return optionalDependencies[name]
}

const PROCESSED_TAG = 'zael:stream-processed'

// Exactly as dynoxide 1.2.1 creates these two; it does not touch tables that exist already.
const STREAM_RECORDS = `CREATE TABLE _stream_records (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                table_name TEXT NOT NULL,
                event_name TEXT NOT NULL,
                keys_json TEXT NOT NULL,
                new_image TEXT,
                old_image TEXT,
                sequence_number TEXT NOT NULL,
                shard_id TEXT NOT NULL,
                created_at INTEGER NOT NULL,
                user_identity TEXT
            )`
const TABLES = `CREATE TABLE _tables (
                table_name TEXT PRIMARY KEY,
                key_schema TEXT NOT NULL,
                attribute_definitions TEXT NOT NULL,
                gsi_definitions TEXT,
                lsi_definitions TEXT,
                stream_enabled INTEGER DEFAULT 0,
                stream_view_type TEXT,
                stream_label TEXT,
                ttl_attribute TEXT,
                ttl_enabled INTEGER DEFAULT 0,
                created_at INTEGER NOT NULL,
                table_status TEXT NOT NULL DEFAULT 'ACTIVE',
                billing_mode TEXT DEFAULT 'PAY_PER_REQUEST',
                provisioned_throughput TEXT,
                tags TEXT,
                sse_specification TEXT,
                table_class TEXT,
                deletion_protection_enabled INTEGER DEFAULT 0,
                on_demand_throughput TEXT,
                table_id TEXT,
                vector_index_definitions TEXT
            )`

// With every write dynoxide queries the highest sequence number; this index saves it a scan of all records.
const ORDER = `CREATE INDEX zael_stream_order ON _stream_records (table_name, CAST(sequence_number AS INTEGER))`

// The last record is kept: dynoxide derives the next sequence number from it.
const TRIM = `CREATE TRIGGER zael_stream_trim AFTER UPDATE OF tags ON _tables BEGIN
  DELETE FROM _stream_records
  WHERE table_name = NEW.table_name
    AND CAST(sequence_number AS INTEGER) < (
      SELECT CAST(value ->> 'Value' AS INTEGER) FROM json_each(NEW.tags) WHERE value ->> 'Key' = '${PROCESSED_TAG}')
    AND CAST(sequence_number AS INTEGER) < (
      SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = NEW.table_name);
END`

// Otherwise a new table of the same name would start with the records of the old one.
const DROP = `CREATE TRIGGER zael_stream_drop AFTER DELETE ON _tables BEGIN
  DELETE FROM _stream_records WHERE table_name = OLD.table_name;
END`

const SCHEMA: readonly SchemaEntry[] = [
  {type: 'table', name: '_stream_records', table: '_stream_records', sql: STREAM_RECORDS},
  {type: 'table', name: 'sqlite_sequence', table: 'sqlite_sequence', sql: 'CREATE TABLE sqlite_sequence(name,seq)'},
  {type: 'table', name: '_tables', table: '_tables', sql: TABLES},
  {type: 'index', name: 'sqlite_autoindex__tables_1', table: '_tables'},
  {type: 'index', name: 'zael_stream_order', table: '_stream_records', sql: ORDER},
  {type: 'trigger', name: 'zael_stream_trim', table: '_tables', sql: TRIM},
  {type: 'trigger', name: 'zael_stream_drop', table: '_tables', sql: DROP},
]

async function prepareDatabase(file: string): Promise<void> {
  if (existsSync(file)) return
  // Atomic: a partial database, left by a killed start, would look damaged to the next start.
  const fresh = `${file}.new`
  await writeFile(fresh, emptyDatabase(SCHEMA), {mode: 0o600})
  await rename(fresh, file)
}

/** Writes the number to a tag of the table, which fires the trim trigger. */
export async function releaseRecords(transport: Transport, streamArn: string, sequence: string): Promise<void> {
  const ResourceArn = streamArn.replace(/\/stream\/[^/]*$/, '')
  await transport.send('TagResource', {ResourceArn, Tags: [{Key: PROCESSED_TAG, Value: sequence}]})
}
