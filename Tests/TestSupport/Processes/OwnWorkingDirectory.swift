public import SystemPackage

#if os(Linux)
  internal import Foundation
  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #endif

  /// Runs a body on a thread with its own working directory, so that other tests keep theirs.
  ///
  /// - Parameter body: A closure that receives a function to change the thread's working directory.
  public func withOwnWorkingDirectory(
    _ body: @escaping @Sendable (_ change: (FilePath) throws -> Void) throws -> Void
  ) async throws {
    try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
      Thread.detachNewThread {
        done.resume(
          with: Result {
            try unshareWorkingDirectory()
            try body { path in
              guard chdir(path.string) == 0 else { throw Errno(rawValue: errno) }
            }
          })
      }
    }
  }

  /// Calls unshare(2) with CLONE_FS through `dlsym`, because its declaration is not imported.
  private func unshareWorkingDirectory() throws {
    guard let function = dlsym(nil, "unshare") else { throw Errno.noFunction }
    let unshare = unsafeBitCast(function, to: (@convention(c) (CInt) -> CInt).self)
    guard unshare(0x200) == 0 else { throw Errno(rawValue: errno) }
  }
#endif
