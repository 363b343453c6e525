#!/bin/bash
set -e
cd /app
echo school > note.txt
echo temple > config.txt
echo castle > list.txt
