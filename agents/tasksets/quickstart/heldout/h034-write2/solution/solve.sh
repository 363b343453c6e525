#!/bin/bash
set -e
cd /app
echo winter > info.txt
echo star > note.txt
