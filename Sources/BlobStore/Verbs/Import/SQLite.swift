#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The functions of the installed SQLite library that are required to read a database.
///
/// The library is loaded when the first database is imported, and stays loaded, so that builds do not need its
/// headers. Source of the signatures: https://www.sqlite.org/c3ref/funclist.html.
@safe struct SQLite: Sendable {
  /// A connection, or a prepared statement.
  typealias Handle = OpaquePointer

  typealias Text = UnsafePointer<CChar>
  typealias Open = @convention(c) (Text, UnsafeMutablePointer<Handle?>, CInt, Text?) -> CInt
  typealias Close = @convention(c) (Handle?) -> CInt
  typealias Prepare =
    @convention(c) (Handle, Text, CInt, UnsafeMutablePointer<Handle?>, UnsafeMutablePointer<Text?>?) -> CInt
  typealias Step = @convention(c) (Handle) -> CInt
  typealias ColumnNumber = @convention(c) (Handle, CInt) -> CInt
  typealias ColumnBlob = @convention(c) (Handle, CInt) -> UnsafeRawPointer?
  typealias Explanation = @convention(c) (CInt) -> Text?
  typealias Limit = @convention(c) (Handle, CInt, CInt) -> CInt

  let open: Open
  let close: Close
  let prepare: Prepare
  let step: Step
  let finalize: Close
  let columnType: ColumnNumber
  let columnBytes: ColumnNumber
  let columnBlob: ColumnBlob
  let explanation: Explanation
  let limit: Limit

  #if canImport(Darwin)
    static let libraryName = "/usr/lib/libsqlite3.dylib"
  #else
    /// The name under which distributions install the library without its headers.
    static let libraryName = "libsqlite3.so.0"
  #endif

  static let shared = find(in: libraryName)

  /// Loads the library, or returns `nil` if it or one of the functions is missing.
  static func find(in library: String) -> SQLite? {
    guard let handle = unsafe dlopen(library, RTLD_NOW | RTLD_LOCAL) else { return nil }
    func function<Function>(_ name: String) -> Function? {
      unsafe dlsym(handle, name).map { unsafe unsafeBitCast($0, to: Function.self) }
    }
    guard let open: Open = unsafe function("sqlite3_open_v2"), let close: Close = unsafe function("sqlite3_close_v2"),
      let prepare: Prepare = unsafe function("sqlite3_prepare_v2"), let step: Step = unsafe function("sqlite3_step"),
      let finalize: Close = unsafe function("sqlite3_finalize"),
      let columnType: ColumnNumber = unsafe function("sqlite3_column_type"),
      let columnBytes: ColumnNumber = unsafe function("sqlite3_column_bytes"),
      let columnBlob: ColumnBlob = unsafe function("sqlite3_column_blob"),
      let explanation: Explanation = unsafe function("sqlite3_errstr"),
      let limit: Limit = unsafe function("sqlite3_limit")
    else { return nil }
    return unsafe SQLite(
      open: open, close: close, prepare: prepare, step: step, finalize: finalize, columnType: columnType,
      columnBytes: columnBytes, columnBlob: columnBlob, explanation: explanation, limit: limit)
  }
}
