//! git: commits, a clone, packing, and the check of every object.

use super::program::Program;

/// Commits, each of which changes a twentieth of the files.
pub const GIT: Program = Program {
    packages: &["git"],
    script: r#"
export GIT_AUTHOR_DATE="1700000000 +0000" GIT_COMMITTER_DATE="1700000000 +0000"
git config --global user.name Ada; git config --global user.email ada@example.org; git config --global init.defaultBranch main
mkdir /tmp/one
for f in $(seq 200); do d=/tmp/one/$((f % 20)); mkdir -p $d; seq $f $((f + 400)) > $d/$f; done
begins
cd /tmp/one; git init -q . && git add . && git commit -q -m 0 || failed "commit"
for c in $(seq 19); do
    for f in $c/*; do echo "change $c" >> $f; done
    git commit -q -a -m "$c" || failed "commit $c"
done
git clone -q file:///tmp/one /tmp/two || failed clone
git gc -q || failed gc
worked 20
git fsck --strict --full > /tmp/fsck.log 2>&1 || failed "fsck: $(tail -5 /tmp/fsck.log)"
same 20 "$(git rev-list --count HEAD)" commits
same "$(git rev-parse HEAD^{tree})" "$(git -C /tmp/two rev-parse HEAD^{tree})" "the clone's tree"
same "$(cat /tmp/one/*/* | sha256sum)" "$(cat /tmp/two/*/* | sha256sum)" "the clone's files"
same 1 "$(ls .git/objects/pack/*.pack | wc -l)" packs
git -C /tmp/two checkout -q -b side && echo side > /tmp/two/side && git -C /tmp/two add side && git -C /tmp/two commit -q -m side && git -C /tmp/two push -q origin side || failed push
same "$(git -C /tmp/two rev-parse side)" "$(git rev-parse side)" "what was pushed"
"#,
    ..Program::new("git", "commits")
};
