internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The files, tables and columns of a cache with a database.
struct DatabaseLayout {
  let database: String
  /// The directory of the payloads that are stored in separate files.
  let payloads: String
  let table: String
  /// The columns for the key, the name of a payload's file, and the payload if it has no file.
  let columns: [String]
  /// The index of the column with extended data, if any.
  var extendedDataColumn: CInt?
  let clause: String
  /// The second table that the clause names.
  let joinedTable: String?
}

extension BlobStore.ImportFormat {
  var database: DatabaseLayout? {
    switch self {
    case .files, .pinCache, .nuke, .kingfisher: nil
    case .yyCache:
      DatabaseLayout(
        database: "manifest.sqlite", payloads: "data", table: "manifest",
        columns: ["key", "filename", "inline_data", "extended_data"], extendedDataColumn: 3, clause: "",
        joinedTable: nil)
    case .urlCache:
      DatabaseLayout(
        database: "Cache.db", payloads: "fsCachedData", table: "cfurl_cache_response",
        columns: [
          "request_key", "CASE WHEN isDataOnFS = 1 THEN receiver_data END",
          "CASE WHEN isDataOnFS = 1 THEN NULL ELSE receiver_data END",
        ], clause: "JOIN main.cfurl_cache_receiver_data USING (entry_ID)", joinedTable: "cfurl_cache_receiver_data")
    }
  }
}

// MARK: - Rows

extension BlobStore {
  /// Imports the rows of a database. A row that cannot be imported does not end the import.
  func importRows(
    of source: borrowing Directory, _ layout: DatabaseLayout, _ options: ImportOptions,
    _ visit: (ImportFinding) -> Void
  ) throws {
    let path = source.path.appending(layout.database)
    guard case .regular(let file, _) = try source.openFile(layout.database, for: .read) else {
      throw BlobStoreError(
        .sourceMissing, "there is no \(layout.database) in this directory, as \(options.format.rawValue) has it",
        path: source.path)
    }
    // SQLite reads the database by its path. The file was only opened to check its type.
    _ = consume file
    let log = try source.status(of: layout.database + "-wal")
    let database = try ForeignDatabase(at: path, hasLog: (log?.size ?? 0) > 0)
    for table in [layout.table, layout.joinedTable] {
      if let table { try database.requireTable(table) }
    }
    let payloads = try source.openSubdirectory(layout.payloads)
    do {
      try database.rows(of: layout.table, layout.columns, where: layout.clause) { row in
        let name = row.text(1)
        let label = name.map { layout.payloads + "/" + $0 } ?? layout.database
        guard let key = row.text(0) else { return visit(.skipped(FilePath(label))) }
        do {
          if let name {
            visit(
              try importPayload(
                named: name, in: payloads, at: FilePath(label), as: BlobKey(key), options,
                extendedData: row.data(layout.extendedDataColumn)))
          } else {
            visit(
              try importPayload(
                of: row, at: FilePath(label), as: BlobKey(key), options,
                extendedData: row.data(layout.extendedDataColumn)))
          }
        } catch {
          visit(.failed(FilePath(label), BlobStoreError(error, operation: "import", key: BlobKey(key))))
        }
      }
    } catch {
      // The rows before the damage are imported.
      visit(.failed(FilePath(layout.database), BlobStoreError(error, operation: "import", key: nil)))
    }
  }

  /// Imports a payload file. Its name is read from the database, and may be anything.
  private func importPayload(
    named name: String, in directory: borrowing Directory?, at path: FilePath, as key: BlobKey,
    _ options: ImportOptions,
    extendedData: Data?
  ) throws -> ImportFinding {
    guard !name.isEmpty, name.first != ".", !name.utf8.contains(UInt8(ascii: "/")), !name.utf8.contains(0) else {
      throw BlobStoreError(.sourceUnreadable, "the database names a payload outside of its directory", path: path)
    }
    switch directory {
    case nil: return .skipped(path)
    case .some(let directory):
      guard case .regular(let file, let status) = try directory.openFile(name, for: .read) else {
        return .skipped(path)
      }
      return try importContent(of: file, status, at: path, as: key, options, extendedData: extendedData)
    }
  }

  private func importPayload(
    of row: borrowing ForeignDatabase.Row, at path: FilePath, as key: BlobKey, _ options: ImportOptions,
    extendedData: Data?
  ) throws -> ImportFinding {
    try row.withBytes(2) { payload in
      try importPayload(
        byteCount: Int64(payload.byteCount), at: path, as: key, options, lifetime: nil, extendedData: extendedData
      ) { timeToLive in
        try store(payload, for: key, ttl: timeToLive, extendedData: extendedData)
      }
    } ?? .skipped(path)
  }
}

extension ForeignDatabase.Row {
  /// Returns a copy of a column's bytes, or `nil` if the column does not exist or is NULL.
  fileprivate func data(_ column: CInt?) -> Data? {
    column.flatMap { withBytes($0) { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } } }
  }
}
