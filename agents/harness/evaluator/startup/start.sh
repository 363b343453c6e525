#!/bin/bash
# Starts a verifier where an agent has left a git repository. Its configuration can name programs under names that only
# it knows (filters, drivers): each is answered by a value that starts nothing of the agent's.
count=${GIT_CONFIG_COUNT:-0}
first=$count

guard() {
    local key value
    while IFS= read -r -d '' key; do
        case "$key" in
            filter.*.clean | filter.*.smudge | filter.*.process | credential.*.helper) value= ;;
            filter.*.required) value=false ;;
            diff.external | diff.*.command) value=/logs/startup/external-diff.sh ;;
            diff.*.textconv) value=cat ;;
            merge.*.driver) value=false ;;
            submodule.*.update) value=checkout ;;
            remote.*.uploadpack) value=git-upload-pack ;;
            remote.*.receivepack) value=git-receive-pack ;;
            hook.*.command | trailer.*.command | trailer.*.cmd) value=true ;;
            *) continue ;;
        esac
        export "GIT_CONFIG_KEY_$count=$key" "GIT_CONFIG_VALUE_$count=$value"
        count=$((count + 1))
        if [ $((count - first)) -gt 500 ]; then
            echo "a repository names more than 500 programs" >&2
            exit 1
        fi
    done < <(git -C "$1" config --list --name-only -z 2> /dev/null)
}

if [ "$count" = 0 ]; then # the task wishes no guard
    exec "$@"
fi
for place in . ./*/; do
    if [ "$place" = . ] || [ -e "$place/.git" ] || [ -e "$place/HEAD" ]; then
        guard "$place"
    fi
done
export GIT_CONFIG_COUNT=$count
exec "$@"
