#!/bin/bash
set -e
cd /app
echo red > note.txt
