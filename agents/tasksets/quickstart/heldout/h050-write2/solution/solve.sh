#!/bin/bash
set -e
cd /app
echo purple > page.txt
echo onion > note.txt
