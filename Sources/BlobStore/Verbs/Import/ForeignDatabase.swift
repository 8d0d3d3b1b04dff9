internal import SystemPackage

/// The database of another library's cache, which is read row by row and never written to. It may be damaged or
/// malicious, so only plain tables are read, and any problem that SQLite detects is an error.
@safe struct ForeignDatabase: ~Copyable {
  private let path: FilePath
  private let sqlite: SQLite
  private let connection: SQLite.Handle

  /// Opens a database, whose path the caller has checked to be a regular file. If a write-ahead log contains changes,
  /// SQLite may leave an index of the log next to it. Throws `sourceUnreadable`, also if SQLite is not installed.
  init(at path: FilePath, hasLog: Bool, _ sqlite: SQLite? = .shared) throws(BlobStoreError) {
    guard let sqlite else {
      throw BlobStoreError(
        .sourceUnreadable, "this database is read by SQLite, and \(SQLite.libraryName) is not installed", path: path)
    }
    // Without a log, nothing is written next to the database, not even locks.
    let uri = "file:\(Self.escaped(path.string))?mode=ro" + (hasLog ? "" : "&immutable=1")
    var opened: SQLite.Handle?
    let result = unsafe sqlite.open(uri, &opened, Self.readOnly | Self.isURI, nil)
    guard result == Self.ok, let connection = unsafe opened else {
      _ = unsafe sqlite.close(opened)
      throw Self.failure(result, path, sqlite)
    }
    self.path = path
    self.sqlite = sqlite
    unsafe self.connection = connection
    // A row that is too large is an error of that row, and does not allocate memory.
    _ = unsafe sqlite.limit(connection, Self.limitLength, 1 << 30)
  }

  deinit {
    _ = unsafe sqlite.close(connection)
  }

  /// Reads the columns of a required table, a row at a time. Throws `sourceUnreadable` if its pages are damaged.
  func rows(
    of table: String, _ columns: [String], where clause: String = "", _ visit: (borrowing Row) throws -> Void
  )
    throws
  {
    try query("SELECT \(columns.joined(separator: ", ")) FROM main.\(table) \(clause)", visit)
  }

  /// Throws `sourceUnreadable` unless it is a plain table, because views and virtual tables execute foreign code.
  func requireTable(_ name: String) throws {
    var isTable = false
    try query(
      "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = '\(name)' AND sql LIKE 'CREATE TABLE%'"
    ) { _ in isTable = true }
    guard isTable else {
      throw BlobStoreError(
        .sourceUnreadable, "this database has no table \(name), so it is another program's", path: path)
    }
  }

  private func query(_ text: String, _ visit: (borrowing Row) throws -> Void) throws {
    var prepared: SQLite.Handle?
    let result = unsafe sqlite.prepare(connection, text, -1, &prepared, nil)
    guard result == Self.ok, let statement = unsafe prepared else { throw Self.failure(result, path, sqlite) }
    defer { _ = unsafe sqlite.finalize(statement) }
    while true {
      let result = unsafe sqlite.step(statement)
      guard result != Self.done else { return }
      guard result == Self.row else { throw Self.failure(result, path, sqlite) }
      try unsafe visit(Row(sqlite: sqlite, statement: statement))
    }
  }

  private static func failure(_ result: CInt, _ path: FilePath, _ sqlite: SQLite) -> BlobStoreError {
    let text = unsafe sqlite.explanation(result).map { unsafe String(cString: $0) } ?? "error \(result)"
    return BlobStoreError(.sourceUnreadable, "SQLite cannot read this database: \(text)", path: path)
  }

  private static func escaped(_ path: String) -> String {
    path.replacing("%", with: "%25").replacing("?", with: "%3f").replacing("#", with: "%23")
  }

  // https://www.sqlite.org/c3ref/constlist.html
  private static let (ok, row, done): (CInt, CInt, CInt) = (0, 100, 101)
  private static let (readOnly, isURI): (CInt, CInt) = (0x1, 0x40)
  private static let limitLength: CInt = 0
}

extension ForeignDatabase {
  /// One row of a table, whose bytes are valid until the next row is read.
  @safe struct Row: ~Copyable {
    fileprivate let sqlite: SQLite
    fileprivate let statement: SQLite.Handle

    private static let null: CInt = 5

    fileprivate init(sqlite: SQLite, statement: SQLite.Handle) {
      self.sqlite = sqlite
      unsafe self.statement = statement
    }

    /// Calls `body` with a column's bytes, which may be empty, or returns `nil` if the column is NULL.
    func withBytes<Result>(_ column: CInt, _ body: (RawSpan) throws -> Result) rethrows -> Result? {
      guard unsafe sqlite.columnType(statement, column) != Self.null else { return nil }
      // The order matters, because the first call may convert the value that the second one measures.
      let start = unsafe sqlite.columnBlob(statement, column)
      let count = unsafe Int(sqlite.columnBytes(statement, column))
      let buffer = unsafe UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count)
      return try unsafe body(RawSpan(_unsafeBytes: buffer))
    }

    func text(_ column: CInt) -> String? {
      withBytes(column) { bytes in unsafe bytes.withUnsafeBytes { unsafe String(validating: $0, as: UTF8.self) } }
        ?? nil
    }
  }
}
