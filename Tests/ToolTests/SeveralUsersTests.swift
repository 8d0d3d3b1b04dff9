import Foundation
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Spec/Semantics.md, P and F: owner, group member and stranger, each by processes of their own, over roots of all kinds.
@Suite(.enabled(if: CacheUser.areAvailable, CacheUser.requirement), .timeLimit(.minutes(10)))
struct SeveralUsersTests {
  /// P3: a private root is its owner's alone, and the superuser's, whose records are the owner's.
  @Test(arguments: [CacheUser.member, .stranger]) func aPrivateRootIsOfNoUseToOthers(user: CacheUser) async throws {
    let root = try SharedRoot(0o700)
    try await root.store("payload", for: "key", as: .owner)
    for verb in ["load", "store", "remove", "lock", "unlock", "touch"] {
      let run = try await root.run(as: user, verb, "DIR", "key", input: "forged")
      #expect(run.status == 2, "\(verb)")
      #expect(run.error.contains("Permission denied"), "\(verb)")
    }
    #expect(try await root.load("key", as: .owner) == "payload")
    try await root.store("of the superuser", for: "key", as: .superuser)
    #expect(root.state("ke/key")?.owner == CacheUser.owner.id)
    #expect(try await root.load("key", as: .owner) == "of the superuser")
  }

  /// P3: where others may only read, they load, and change nothing.
  @Test(arguments: [CacheUser.member, .stranger]) func readersOfAReadableRootLoadAndChangeNothing(
    user: CacheUser
  ) async throws {
    let root = try SharedRoot(0o755)
    try await root.store("payload", for: "key", as: .owner)
    #expect(try await root.load("key", as: user) == "payload")
    #expect(try await root.usage(as: user)["records"] == 1)
    for verb in ["store", "remove", "lock"] {
      let run = try await root.run(as: user, verb, "DIR", "key", input: "forged")
      #expect(run.status == 2, "\(verb)")
    }
    #expect(try await root.load("key", as: .owner) == "payload")
  }
}
