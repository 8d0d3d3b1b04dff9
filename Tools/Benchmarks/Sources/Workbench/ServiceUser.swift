internal import Foundation
package import SystemPackage

/// The user that services run as, without power over the files of others. This spares the store a call: a file that it
/// could open as only its owner may is its own.
package enum ServiceUser {
  /// Makes the process that of a user for good, and a directory theirs. Only the superuser can.
  package static func become(_ user: UInt32, owning directory: FilePath) throws {
    try BenchmarkFailure.check(chown(directory.string, user, user), "chown of \(directory)")
    try BenchmarkFailure.check(setgroups(0, nil), "setgroups")
    try BenchmarkFailure.check(setgid(user), "setgid to \(user)")
    try BenchmarkFailure.check(setuid(user), "setuid to \(user)")
    let isReached = access(directory.string, R_OK | W_OK | X_OK) == 0
    try BenchmarkFailure.require(isReached, "user \(user) does not reach \(directory); --directory names another place")
  }
}
