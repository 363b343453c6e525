#!/bin/bash
set -e
cd /app
echo gold >> draft.txt
echo snow > log.txt
